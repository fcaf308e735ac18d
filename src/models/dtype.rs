//! Element types of safetensors and their sizes.

use std::borrow::Cow;

/// The element types of safetensors 0.8 with their size in bits. The order is that of the crate's `Dtype`. Its writer
/// sorts the tensors of a file by this order, with the largest type first.
pub const DTYPES: [(&str, u64); 22] = [
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("C64", 64),
    ("F64", 64),
    ("I64", 64),
    ("U64", 64),
];

/// Position of a type in [`DTYPES`]; `None` for an unknown type.
#[must_use]
pub fn rank(dtype: &str) -> Option<usize> {
    DTYPES.iter().position(|(name, _)| *name == dtype)
}

/// Size of one element in bits; `None` for an unknown type.
#[must_use]
pub fn bits(dtype: &str) -> Option<u64> {
    DTYPES.iter().find(|(name, _)| *name == dtype).map(|(_, bits)| *bits)
}

/// A type without memory of its own if it is known. A model can have millions of tensors.
pub(super) fn interned(dtype: Cow<'_, str>) -> Cow<'static, str> {
    match DTYPES.iter().find(|(name, _)| *name == dtype) {
        Some((known, _)) => Cow::Borrowed(known),
        None => Cow::Owned(dtype.into_owned()),
    }
}

/// The reason why a tensor's size cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeProblem {
    /// The element type is unknown.
    UnknownType,
    /// The product does not fit into 64 bits.
    Overflow,
    /// The elements are smaller than a byte and do not fill the last byte.
    PartialByte,
}

/// Size in bytes of a tensor with this type and shape.
///
/// # Errors
/// Fails if the type is unknown, the product overflows, or the last byte is not filled.
pub fn tensor_bytes(dtype: &str, shape: &[u64]) -> Result<u64, SizeProblem> {
    let bits = bits(dtype).ok_or(SizeProblem::UnknownType)?;
    // A dimension of zero makes the tensor empty, even if the product of the other dimensions would overflow.
    if shape.contains(&0) {
        return Ok(0);
    }
    let total = shape
        .iter()
        .try_fold(1_u64, |product, dim| product.checked_mul(*dim))
        .and_then(|elements| elements.checked_mul(bits))
        .ok_or(SizeProblem::Overflow)?;
    if total % 8 == 0 { Ok(total / 8) } else { Err(SizeProblem::PartialByte) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_type_and_shape() {
        for (dtype, shape, want) in [
            ("BF16", vec![3, 5], Ok(30)),
            ("F32", vec![], Ok(4)),
            ("F4", vec![4], Ok(2)),
            ("F4", vec![3], Err(SizeProblem::PartialByte)),
            ("F6_E2M3", vec![4], Ok(3)),
            ("U8", vec![0, u64::MAX, u64::MAX], Ok(0)),
            ("U8", vec![u64::MAX, 2], Err(SizeProblem::Overflow)),
            ("Q4_K", vec![1], Err(SizeProblem::UnknownType)),
        ] {
            assert_eq!(tensor_bytes(dtype, &shape), want, "{dtype} {shape:?}");
        }
    }

    #[test]
    fn every_type_has_the_size_and_the_order_that_the_safetensors_crate_gives_it() {
        let mut before: Option<safetensors::Dtype> = None;
        for (name, bits) in DTYPES {
            let theirs: safetensors::Dtype = serde_json::from_value(serde_json::Value::from(name)).unwrap();
            assert_eq!(theirs.bitsize() as u64, bits, "{name}");
            assert!(before.is_none_or(|earlier| earlier < theirs), "{name}");
            before = Some(theirs);
        }
    }
}
