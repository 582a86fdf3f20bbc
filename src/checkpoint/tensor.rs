//! Tensors as bytes with a name: what models and optimisers hand over and take back.

/// Type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit float, IEEE half precision.
    F16,
    /// 16-bit float with the range of f32.
    BF16,
    /// 64-bit signed integer.
    I64,
    /// Byte.
    U8,
}

impl DType {
    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            DType::I64 => 8,
            DType::F32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::U8 => 1,
        }
    }
}

/// One named tensor in host memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorBytes {
    /// Name, unique within its file.
    pub name: String,
    /// Type of the elements.
    pub dtype: DType,
    /// Shape; empty for a single number.
    pub shape: Vec<usize>,
    /// Elements, row-major, little endian.
    pub bytes: Vec<u8>,
}
