//! Tensors as bytes: what travels between a model and a file.

use std::fmt;

/// Type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit float, IEEE half precision.
    F16,
    /// 16-bit float with the exponent of a 32-bit one.
    BF16,
    /// 64-bit signed integer.
    I64,
    /// 8-bit unsigned integer.
    U8,
}

impl DType {
    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::I64 => 8,
            DType::U8 => 1,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I64 => "i64",
            DType::U8 => "u8",
        })
    }
}

/// One named tensor in host memory.
#[derive(Clone, PartialEq, Eq)]
pub struct TensorBytes {
    /// Name, e.g. `blocks.0.attention.query.weight`. Unique within a file.
    pub name: String,
    /// Type of the elements.
    pub dtype: DType,
    /// Shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Elements in row-major order, little endian.
    pub bytes: Vec<u8>,
}

impl TensorBytes {
    /// A tensor of 32-bit floats. `values` holds the product of `shape` elements in row-major order.
    #[must_use]
    pub fn from_f32(name: impl Into<String>, shape: Vec<usize>, values: &[f32]) -> Self {
        let mut bytes = vec![0; values.len() * 4];
        for (slot, value) in bytes.chunks_exact_mut(4).zip(values) {
            slot.copy_from_slice(&value.to_le_bytes());
        }
        Self {
            name: name.into(),
            dtype: DType::F32,
            shape,
            bytes,
        }
    }

    /// A tensor of 64-bit integers. `values` holds the product of `shape` elements.
    #[must_use]
    pub fn from_i64(name: impl Into<String>, shape: Vec<usize>, values: &[i64]) -> Self {
        Self {
            name: name.into(),
            dtype: DType::I64,
            shape,
            bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    /// The elements, if they are 32-bit floats.
    #[must_use]
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        (self.dtype == DType::F32).then(|| {
            let (words, _) = self.bytes.as_chunks();
            words.iter().map(|word| f32::from_le_bytes(*word)).collect()
        })
    }

    /// The elements, if they are 64-bit integers.
    #[must_use]
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        (self.dtype == DType::I64).then(|| {
            let (words, _) = self.bytes.as_chunks();
            words.iter().map(|word| i64::from_le_bytes(*word)).collect()
        })
    }

    /// Bytes that type and shape ask for; `None` when the product overflows.
    #[must_use]
    pub fn expected_bytes(&self) -> Option<usize> {
        self.shape
            .iter()
            .try_fold(self.dtype.bytes(), |product, &n| product.checked_mul(n))
    }

    /// Whether `bytes` is as long as type and shape ask for.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.expected_bytes() == Some(self.bytes.len())
    }
}

impl fmt::Debug for TensorBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            dtype,
            shape,
            bytes,
        } = self;
        write!(f, "{name}: {dtype} {shape:?}, {} bytes", bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_bits() {
        let values = [0.0, -0.0, 1.5, f32::MIN_POSITIVE / 2.0, f32::INFINITY];
        let tensor = TensorBytes::from_f32("w", vec![5], &values);
        let back = tensor.to_f32().unwrap();
        let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&back), bits(&values));
        assert!(tensor.is_consistent());
        assert_eq!(tensor.to_i64(), None);
        let counts = TensorBytes::from_i64("n", vec![2], &[-1, i64::MAX]);
        assert_eq!(counts.to_i64().unwrap(), [-1, i64::MAX]);
    }

    #[test]
    fn shapes_that_do_not_fit_are_noticed() {
        let mut tensor = TensorBytes::from_f32("w", vec![3], &[1.0, 2.0]);
        assert!(!tensor.is_consistent());
        tensor.shape = vec![usize::MAX, 2];
        assert_eq!(tensor.expected_bytes(), None);
        assert!(!tensor.is_consistent());
        tensor.shape = vec![];
        assert_eq!(tensor.expected_bytes(), Some(4));
    }
}
