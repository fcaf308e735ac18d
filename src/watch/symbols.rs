//! Finds the functions that a library exports in its file.

use cufile_audit::layout::{FUNCTIONS, Function};
use object::{Object, ObjectSegment, ObjectSymbol};
use std::path::Path;

/// Functions that open or close the driver, register memory or files, or move data.
const PROBED: [Function; 22] = [
    Function::DriverOpen,
    Function::DriverClose,
    Function::DriverCloseV2,
    Function::DriverGetProperties,
    Function::GetVersion,
    Function::HandleRegister,
    Function::HandleDeregister,
    Function::BufRegister,
    Function::BufDeregister,
    Function::Read,
    Function::Write,
    Function::Readv,
    Function::Writev,
    Function::ReadAsync,
    Function::WriteAsync,
    Function::StreamRegister,
    Function::StreamDeregister,
    Function::BatchSetUp,
    Function::BatchSubmit,
    Function::BatchGetStatus,
    Function::BatchCancel,
    Function::BatchDestroy,
];

/// The exported functions that can be probed, with their offsets in the file.
pub(super) fn functions(library: &Path) -> Result<Vec<(Function, u64)>, String> {
    let shown = library.display();
    let bytes = std::fs::read(library).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let file = object::File::parse(&*bytes).map_err(|error| format!("{shown} is not an ELF file: {error}"))?;
    let offset = |address: u64| {
        file.segments().find_map(|segment| {
            let inside = address.checked_sub(segment.address()).filter(|inside| *inside < segment.file_range().1)?;
            Some(segment.file_range().0 + inside)
        })
    };
    let mut found = Vec::new();
    for symbol in file.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
        let Ok(name) = symbol.name() else { continue };
        let function = PROBED.iter().find(|function| FUNCTIONS[**function as usize].name == name);
        if let Some((function, offset)) = function.zip(offset(symbol.address())) {
            found.push((*function, offset));
        }
    }
    if found.is_empty() { Err(format!("{shown} exports no function of cuFile")) } else { Ok(found) }
}
