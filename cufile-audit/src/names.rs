//! Finds the number of a recorded function by its name.

use crate::layout::{FUNCTIONS, Function};

/// The number of a recorded function of libcufile.
pub(crate) fn function(name: &[u8]) -> Option<usize> {
    let cufile = FUNCTIONS.get(..FIRST_PLAIN)?;
    name.starts_with(b"cuFile").then(|| cufile.iter().position(|function| function.name.as_bytes() == name))?
}

const FIRST_PLAIN: usize = Function::LibcRead as usize;

/// Whether a function in the table belongs to libcuda.
pub(crate) const fn is_cuda(number: usize) -> bool {
    number >= Function::CudaHtoD as usize
}

/// The number of a recorded function of libc, libaio or libcuda. The names of libcuda have suffixes for the version and
/// the default stream.
pub(crate) fn plain_function(name: &[u8]) -> Option<usize> {
    if !matches!(name.first(), Some(b'r' | b'p' | b'm' | b'_' | b'c' | b'e' | b'f' | b's' | b'i')) {
        return None;
    }
    let without = |name, ending: &[u8]| -> &[u8] { <[u8]>::strip_suffix(name, ending).unwrap_or(name) };
    let is_cuda = name.starts_with(b"cu");
    let name = if is_cuda { without(without(without(name, b"_ptds"), b"_ptsz"), b"_v2") } else { name };
    let plain = FUNCTIONS.iter().enumerate().skip(FIRST_PLAIN);
    plain.filter(|(_, function)| function.name.as_bytes() == name).map(|(number, _)| number).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_the_table_is_found_by_name() {
        for (number, info) in FUNCTIONS.iter().enumerate() {
            let found = function(info.name.as_bytes()).or_else(|| plain_function(info.name.as_bytes()));
            assert_eq!(found, Some(number), "{}", info.name);
        }
        assert_eq!(function(b"cuFileCopyGpu"), None);
        for name in [b"cuMemcpyHtoDAsync_v2_ptsz".as_slice(), b"cuMemcpyHtoDAsync_v2", b"cuMemcpyHtoDAsync"] {
            assert_eq!(plain_function(name), Some(Function::CudaHtoDAsync as usize));
        }
        for (name, function) in [
            (b"cuMemcpy2DAsync_v2_ptsz".as_slice(), Function::CudaCopy2dAsync),
            (b"cuMemcpyBatchAsync_v2", Function::CudaCopyBatch),
        ] {
            assert_eq!(plain_function(name), Some(function as usize));
        }
        for name in [b"cuMemcpyDtoD_v2".as_slice(), b"readlink", b"pread64_v2", b""] {
            assert_eq!(plain_function(name), None);
        }
    }
}
