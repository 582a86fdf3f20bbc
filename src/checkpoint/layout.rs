//! The SafeTensors format: a length, a JSON header, then the tensors one after another.
//!
//! The crate `safetensors` defines header and rules; we stream the tensors ourselves, so that they
//! are hashed while they are written and read without a second copy in memory.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Read};

use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::{DType, TensorBytes};

/// Largest header, in bytes: the limit of the format itself.
pub(super) const HEADER_BYTES_MAX: u64 = 100_000_000;

/// Key of the header that is no tensor.
const METADATA: &str = "__metadata__";

/// Bytes of the length in front of the header.
const LENGTH_BYTES: usize = 8;

/// Order and header of a file to be written. The same tensors give the same bytes, in whatever order
/// they come.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    header: Vec<u8>,
    tensors: Vec<&'a TensorBytes>,
    bytes: u64,
}

impl<'a> Layout<'a> {
    /// Lays tensors out: large element types first (so that all are aligned), then by name.
    ///
    /// # Errors
    ///
    /// Says which tensor contradicts itself or another.
    pub(super) fn of(tensors: &'a [TensorBytes]) -> Result<Self, String> {
        let mut tensors: Vec<&TensorBytes> = tensors.iter().collect();
        tensors.sort_by(|a, b| {
            let by_dtype = to_format(b.dtype).cmp(&to_format(a.dtype));
            by_dtype.then_with(|| a.name.cmp(&b.name))
        });
        let mut names = HashSet::new();
        let mut infos = Vec::with_capacity(tensors.len());
        let mut offset = 0;
        for tensor in &tensors {
            if tensor.name == METADATA || !names.insert(tensor.name.as_str()) {
                return Err(format!("the name `{}` is taken", tensor.name));
            }
            if !tensor.is_consistent() {
                return Err(format!("bytes and shape do not agree in {tensor:?}"));
            }
            let end = offset + tensor.bytes.len();
            let info = TensorInfo {
                dtype: to_format(tensor.dtype),
                shape: tensor.shape.clone(),
                data_offsets: (offset, end),
            };
            infos.push((tensor.name.clone(), info));
            offset = end;
        }
        // `pt` is what other readers expect: row-major, weights as [out, in].
        let about = HashMap::from([("format".to_string(), "pt".to_string())]);
        let metadata = Metadata::new(Some(about), infos).map_err(|error| error.to_string())?;
        let mut json = serde_json::to_vec(&metadata).map_err(|error| error.to_string())?;
        json.resize(json.len().next_multiple_of(LENGTH_BYTES), b' ');
        let length = json.len() as u64;
        if length > HEADER_BYTES_MAX {
            return Err(format!("a header of {length} bytes is over the limit"));
        }
        let mut header = length.to_le_bytes().to_vec();
        header.append(&mut json);
        let bytes = header.len() as u64 + offset as u64;
        Ok(Self {
            header,
            tensors,
            bytes,
        })
    }

    /// Bytes of the whole file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file, piece by piece.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let tensors = self.tensors.iter().map(|tensor| tensor.bytes.as_slice());
        std::iter::once(self.header.as_slice()).chain(tensors)
    }
}

/// The tensors of a file, before their elements are read.
pub(super) struct Contents {
    tensors: Vec<(String, DType, TensorInfo)>,
}

impl Contents {
    /// Reads and checks the header of a file of `file_bytes` bytes. Nothing larger than the file is
    /// ever allocated.
    ///
    /// # Errors
    ///
    /// Says what is wrong.
    pub(super) fn read(file: &mut impl Read, file_bytes: u64) -> Result<Self, String> {
        let mut length = [0; LENGTH_BYTES];
        file.read_exact(&mut length).map_err(|e| e.to_string())?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_BYTES_MAX || length > file_bytes.saturating_sub(LENGTH_BYTES as u64) {
            return Err(format!(
                "a header of {length} bytes does not fit a file of {file_bytes}"
            ));
        }
        let mut header = vec![0; usize::try_from(length).map_err(|e| e.to_string())?];
        file.read_exact(&mut header).map_err(|e| e.to_string())?;
        let Header(mut infos) =
            serde_json::from_slice(&header).map_err(|error| format!("its header: {error}"))?;
        infos.sort_by_key(|(_, info)| info.data_offsets);
        let metadata =
            Metadata::new(None, infos.clone()).map_err(|error| format!("its header: {error}"))?;
        let expected = (metadata.data_len() as u64)
            .checked_add(LENGTH_BYTES as u64)
            .and_then(|bytes| bytes.checked_add(length));
        if expected != Some(file_bytes) {
            return Err(format!(
                "its tensors do not fill its {file_bytes} bytes exactly"
            ));
        }
        let tensors = infos
            .into_iter()
            .map(|(name, info)| match from_format(info.dtype) {
                Some(dtype) => Ok((name, dtype, info)),
                None => Err(format!(
                    "tensor `{name}` has elements of type {}, which is not read here",
                    info.dtype
                )),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { tensors })
    }

    /// Reads the tensors. `file` stands behind the header.
    pub(super) fn tensors(self, file: &mut impl Read) -> io::Result<Vec<TensorBytes>> {
        self.tensors
            .into_iter()
            .map(|(name, dtype, info)| {
                // `Metadata::new` has checked that offsets rise and fit the shape.
                let mut bytes = vec![0; info.data_offsets.1 - info.data_offsets.0];
                file.read_exact(&mut bytes)?;
                Ok(TensorBytes {
                    name,
                    dtype,
                    shape: info.shape,
                    bytes,
                })
            })
            .collect()
    }
}

fn to_format(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::U8 => Dtype::U8,
    }
}

fn from_format(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::U8 => DType::U8,
        _ => return None,
    })
}

/// Names and places. Read by hand, because a map type would drop the first of two equal names.
struct Header(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut names = HashSet::new();
                let mut infos = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("`{name}` is there twice")));
                    }
                    if name == METADATA {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        infos.push((name, map.next_value()?));
                    }
                }
                Ok(Header(infos))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}
