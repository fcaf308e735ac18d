//! A NIXL agent, its back end, and transfers: register memory and file, prepare, post, poll, release, deregister.

use crate::error::Error;
use crate::library::Library;
use crate::raw::{self, Functions, Handle, Status};
use cufile_ffi::IoMemory;
use std::ffi::{CStr, CString, c_int};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

/// The kind of memory in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Host memory (`DRAM_SEG`).
    Host,
    /// Memory of the GPU with this CUDA ordinal (`VRAM_SEG`).
    Gpu(u32),
}

impl Memory {
    const fn raw(self) -> (c_int, u64) {
        match self {
            Self::Host => (raw::MEM_DRAM, 0),
            Self::Gpu(ordinal) => (raw::MEM_VRAM, ordinal as u64),
        }
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// From files to memory.
    Read,
    /// From memory to files.
    Write,
}

impl Operation {
    const fn raw(self) -> c_int {
        match self {
            Self::Read => raw::READ,
            Self::Write => raw::WRITE,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Read => "a read",
            Self::Write => "a write",
        }
    }
}

/// A NIXL agent with at most one back end. Agents are created without internal locks, so only one thread at a time
/// can use an agent.
#[derive(Debug)]
pub struct Agent {
    library: Library,
    name: CString,
    agent: Handle,
    backend: Handle,
    /// The options that name the back end. It is null before there is a back end.
    options: Handle,
}

// SAFETY: the handles point to heap structures that do not belong to a thread. Agent is not Sync, so two threads
// never use them at the same time.
unsafe impl Send for Agent {}

impl Agent {
    /// Creates an agent with the progress thread of NIXL, as NIXL's Python interface does by default.
    ///
    /// # Errors
    /// If NIXL returns an error.
    pub fn new(library: &Library, name: &str) -> Result<Self, Error> {
        let name = text(name)?;
        let mut agent = std::ptr::null_mut();
        // SAFETY: the arguments are a C string and a location for the handle.
        let status = unsafe { (library.functions().create_agent)(name.as_ptr(), &raw mut agent) };
        check("nixl_capi_create_agent", "an agent", status)?;
        Ok(Self { library: library.clone(), name, agent, backend: std::ptr::null_mut(), options: std::ptr::null_mut() })
    }

    fn f(&self) -> &Functions {
        self.library.functions()
    }

    /// The names of the plugins that NIXL found.
    ///
    /// # Errors
    /// If NIXL returns an error.
    pub fn plugins(&self) -> Result<Vec<String>, Error> {
        let mut list = std::ptr::null_mut();
        // SAFETY: the arguments are an existing agent and a location for the handle.
        let status = unsafe { (self.f().get_available_plugins)(self.agent, &raw mut list) };
        check("nixl_capi_get_available_plugins", "the agent", status)?;
        let mut found = Vec::new();
        let mut size = 0;
        // SAFETY: the list was created just above. Its strings exist as long as the list and are copied before it is
        // freed.
        unsafe {
            if (self.f().string_list_size)(list, &raw mut size) == raw::SUCCESS {
                for index in 0..size {
                    let mut name = std::ptr::null();
                    if (self.f().string_list_get)(list, index, &raw mut name) == raw::SUCCESS && !name.is_null() {
                        found.push(CStr::from_ptr(name).to_string_lossy().into_owned());
                    }
                }
            }
            (self.f().destroy_string_list)(list);
        }
        Ok(found)
    }

    /// Loads a plugin and makes it the back end of this agent, with named settings. Other settings keep the defaults
    /// of the plugin.
    ///
    /// # Errors
    /// If the agent already has a back end, or if NIXL returns an error: the plugin or a library that it needs is not
    /// installed, or the plugin cannot start on this machine.
    pub fn create_backend(&mut self, plugin: &str, settings: &[(&str, String)]) -> Result<(), Error> {
        if !self.backend.is_null() {
            return Err(Error::Invalid("this agent has a back end already".to_owned()));
        }
        let name = text(plugin)?;
        let pairs: Vec<(CString, CString)> =
            settings.iter().map(|(name, value)| Ok((text(name)?, text(value)?))).collect::<Result<_, Error>>()?;
        let mut params = std::ptr::null_mut();
        // SAFETY: the argument is a location for the handle.
        check("nixl_capi_create_params", plugin, unsafe { (self.f().create_params)(&raw mut params) })?;
        let mut backend = std::ptr::null_mut();
        // SAFETY: the arguments are valid handles and C strings. NIXL copies the settings, so they are freed right
        // after the call.
        let status = unsafe {
            let mut status = raw::SUCCESS;
            for (name, value) in &pairs {
                if status == raw::SUCCESS {
                    status = (self.f().params_add)(params, name.as_ptr(), value.as_ptr());
                }
            }
            if status == raw::SUCCESS {
                status = (self.f().create_backend)(self.agent, name.as_ptr(), params, &raw mut backend);
            }
            (self.f().destroy_params)(params);
            status
        };
        check("nixl_capi_create_backend", &format!("the plugin {plugin}"), status)?;
        self.backend = backend;
        let mut options = std::ptr::null_mut();
        // SAFETY: the argument is a location for the handle.
        check("nixl_capi_create_opt_args", plugin, unsafe { (self.f().create_opt_args)(&raw mut options) })?;
        self.options = options;
        // SAFETY: both handles were created above and exist as long as the agent.
        check("nixl_capi_opt_args_add_backend", plugin, unsafe { (self.f().opt_args_add_backend)(options, backend) })
    }

    /// Registers the `len` bytes of `memory` from `offset` on.
    ///
    /// # Errors
    /// If the range exceeds the memory, if there is no back end, or if NIXL returns an error.
    pub fn register<M: IoMemory>(
        &self,
        memory: &Arc<M>,
        kind: Memory,
        offset: usize,
        len: usize,
    ) -> Result<Registered<'_, M>, Error> {
        if offset.checked_add(len).is_none_or(|end| end > memory.len()) {
            return Err(Error::Invalid(format!("{len} bytes at {offset} exceed the memory of {} bytes", memory.len())));
        }
        let address = memory.base() as usize + offset;
        let (kind, device) = kind.raw();
        let list = self.register_one(kind, address, len, device, "memory")?;
        Ok(Registered { list, kind, address, len, device, memory: Arc::clone(memory) })
    }

    /// Registers the `len` bytes of a file from `offset` on. The borrow ensures that the descriptor stays open as
    /// long as the registration exists.
    ///
    /// # Errors
    /// If there is no back end, or if NIXL returns an error.
    pub fn register_file<'a>(
        &'a self,
        file: BorrowedFd<'a>,
        offset: u64,
        len: usize,
    ) -> Result<RegisteredFile<'a>, Error> {
        let start = usize::try_from(offset)
            .map_err(|_| Error::Invalid(format!("offset {offset} exceeds the address space")))?;
        let number = u64::from(file.as_raw_fd().unsigned_abs());
        let list = self.register_one(raw::MEM_FILE, start, len, number, "a file")?;
        Ok(RegisteredFile { list, start, len, number })
    }

    fn register_one(
        &self,
        kind: c_int,
        start: usize,
        len: usize,
        device: u64,
        what: &str,
    ) -> Result<Registration<'_>, Error> {
        if self.options.is_null() {
            return Err(Error::Invalid("the agent has no back end".to_owned()));
        }
        let mut list = std::ptr::null_mut();
        // SAFETY: the argument is a location for the handle.
        check("nixl_capi_create_reg_dlist", what, unsafe { (self.f().create_reg_dlist)(kind, &raw mut list) })?;
        let mut made = Registration { agent: self, list, registered: false };
        // SAFETY: the list was created above. Metadata of length 0 is permitted. NIXL could open a name in the
        // metadata as a path.
        let status = unsafe { (self.f().reg_dlist_add_desc)(list, start, len, device, std::ptr::null(), 0) };
        check("nixl_capi_reg_dlist_add_desc", what, status)?;
        // SAFETY: the handles are valid. The range is memory that IoMemory guarantees to be valid and that the owner
        // of the registration keeps, or it is a range of an open file, which NIXL only stores.
        let status = unsafe { (self.f().register_mem)(self.agent, list, self.options) };
        check("nixl_capi_register_mem", what, status)?;
        made.registered = true;
        Ok(made)
    }

    /// Prepares a read of the registered range of a file to registered memory of the same length.
    ///
    /// # Errors
    /// If the lengths differ, or if NIXL returns an error.
    pub fn prepare_read<'a, M: IoMemory>(
        &'a self,
        memory: &'a Registered<'a, M>,
        file: &'a RegisteredFile<'a>,
    ) -> Result<Transfer<'a, M>, Error> {
        if memory.len != file.len {
            return Err(Error::Invalid(format!(
                "{} bytes of a file do not fit into {} bytes of memory",
                file.len, memory.len
            )));
        }
        let whole = Part { memory: 0, memory_offset: 0, file: 0, file_offset: file.start, len: file.len };
        self.prepare(Operation::Read, &[memory], &[file], &[whole])
    }

    /// Prepares one transfer of many parts, each between a part of registered memory and a registered range of a
    /// file.
    ///
    /// # Errors
    /// If a part is outside of its registration, if the registrations are of several kinds of memory, or if NIXL
    /// returns an error.
    pub fn prepare<'a, M: IoMemory>(
        &'a self,
        operation: Operation,
        memory: &[&'a Registered<'a, M>],
        files: &[&'a RegisteredFile<'a>],
        parts: &[Part],
    ) -> Result<Transfer<'a, M>, Error> {
        let outside = |part: &Part| Error::Invalid(format!("{part:?} is outside its registration"));
        let ends = parts
            .iter()
            .map(|part| {
                let (memory, file) = memory.get(part.memory).zip(files.get(part.file)).ok_or_else(|| outside(part))?;
                let in_memory = part.memory_offset.checked_add(part.len).is_some_and(|end| end <= memory.len);
                let in_file = part.file_offset >= file.start
                    && (part.file_offset - file.start).checked_add(part.len).is_some_and(|end| end <= file.len);
                if in_memory && in_file { Ok((part, *memory, file.number)) } else { Err(outside(part)) }
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let Some(kind) = memory.first().map(|first| first.kind).filter(|kind| memory.iter().all(|m| m.kind == *kind))
        else {
            return Err(Error::Invalid("a transfer needs memory of one kind".to_owned()));
        };
        let mut transfer = Transfer {
            agent: self,
            memory: memory.iter().map(|registered| Arc::clone(&registered.memory)).collect(),
            lists: [std::ptr::null_mut(); 2],
            request: std::ptr::null_mut(),
            running: false,
        };
        for (place, kind) in transfer.lists.iter_mut().zip([kind, raw::MEM_FILE]) {
            // SAFETY: the argument is a location for the handle.
            let status = unsafe { (self.f().create_xfer_dlist)(kind, place) };
            check("nixl_capi_create_xfer_dlist", operation.name(), status)?;
        }
        for (part, memory, number) in ends {
            let [local, remote] = transfer.lists;
            let address = memory.address + part.memory_offset;
            // SAFETY: the lists are valid.
            let status = unsafe {
                match (self.f().xfer_dlist_add_desc)(local, address, part.len, memory.device) {
                    raw::SUCCESS => (self.f().xfer_dlist_add_desc)(remote, part.file_offset, part.len, number),
                    refused => refused,
                }
            };
            check("nixl_capi_xfer_dlist_add_desc", operation.name(), status)?;
        }
        // SAFETY: the handles are valid. All ranges are registered with this agent, and the transfer borrows their
        // registrations. An agent that reads or writes files passes its own name as the remote agent.
        let status = unsafe {
            (self.f().create_xfer_req)(
                self.agent,
                operation.raw(),
                transfer.lists[0],
                transfer.lists[1],
                self.name.as_ptr(),
                &raw mut transfer.request,
                std::ptr::null_mut(),
            )
        };
        check("nixl_capi_create_xfer_req", operation.name(), status)?;
        Ok(transfer)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // SAFETY: the library created each handle, and each is freed once. Registrations and transfers borrow the
        // agent, so there are none any more.
        unsafe {
            if !self.options.is_null() {
                (self.f().destroy_opt_args)(self.options);
            }
            if !self.backend.is_null() {
                (self.f().destroy_backend)(self.backend);
            }
            (self.f().destroy_agent)(self.agent);
        }
    }
}

/// A list of one range that is registered with the agent until it is dropped.
#[derive(Debug)]
struct Registration<'a> {
    agent: &'a Agent,
    list: Handle,
    registered: bool,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        // SAFETY: the library created the list, and it is freed once. Transfers borrow their registrations, so none
        // uses it any more.
        unsafe {
            if self.registered {
                (self.agent.f().deregister_mem)(self.agent.agent, self.list, self.agent.options);
            }
            (self.agent.f().destroy_reg_dlist)(self.list);
        }
    }
}

/// Registered memory. Dropping it deregisters the memory before the memory is released.
#[derive(Debug)]
pub struct Registered<'a, M: IoMemory> {
    #[expect(dead_code, reason = "held to be dropped")]
    list: Registration<'a>,
    kind: c_int,
    address: usize,
    len: usize,
    device: u64,
    memory: Arc<M>,
}

/// A registered range of a file. Dropping it deregisters the range.
#[derive(Debug)]
pub struct RegisteredFile<'a> {
    #[expect(dead_code, reason = "held to be dropped")]
    list: Registration<'a>,
    start: usize,
    len: usize,
    number: u64,
}

/// A part of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The index of the registered memory.
    pub memory: usize,
    /// The offset in the registered memory in bytes.
    pub memory_offset: usize,
    /// The index of the file.
    pub file: usize,
    /// The offset in the file in bytes.
    pub file_offset: usize,
    /// The length in bytes.
    pub len: usize,
}

/// A prepared transfer. Dropping it releases the request.
#[derive(Debug)]
pub struct Transfer<'a, M: IoMemory> {
    agent: &'a Agent,
    memory: Vec<Arc<M>>,
    lists: [Handle; 2],
    request: Handle,
    running: bool,
}

impl<M: IoMemory> Transfer<'_, M> {
    /// Starts the transfer. Returns whether it is already complete.
    ///
    /// # Errors
    /// If NIXL returns an error.
    pub fn post(&mut self) -> Result<bool, Error> {
        // This is set before the call, so that the memory is not freed if the result of the call is unknown.
        self.running = true;
        // SAFETY: the handles are valid. Memory and file stay registered and valid until the transfer is dropped.
        let status = unsafe { (self.agent.f().post_xfer_req)(self.agent.agent, self.request, std::ptr::null_mut()) };
        self.progress("nixl_capi_post_xfer_req", status)
    }

    /// Whether the transfer is complete.
    ///
    /// # Errors
    /// If the transfer failed.
    pub fn poll(&mut self) -> Result<bool, Error> {
        // SAFETY: the handles are valid.
        let status = unsafe { (self.agent.f().get_xfer_status)(self.agent.agent, self.request) };
        self.progress("nixl_capi_get_xfer_status", status)
    }

    /// Starts the transfer and waits until it is complete.
    ///
    /// # Errors
    /// If NIXL returns an error or the transfer failed.
    pub fn run(&mut self) -> Result<(), Error> {
        let mut done = self.post()?;
        while !done {
            std::thread::yield_now();
            done = self.poll()?;
        }
        Ok(())
    }

    fn progress(&mut self, call: &'static str, status: Status) -> Result<bool, Error> {
        if status == raw::IN_PROGRESS {
            return Ok(false);
        }
        check(call, "a transfer", status)?;
        self.running = false;
        Ok(true)
    }
}

impl<M: IoMemory> Drop for Transfer<'_, M> {
    fn drop(&mut self) {
        // SAFETY: the library created each handle, and each is freed once.
        unsafe {
            let f = self.agent.f();
            if !self.request.is_null() {
                let released = (f.release_xfer_req)(self.agent.agent, self.request) == raw::SUCCESS;
                if released {
                    (f.destroy_xfer_req)(self.request);
                }
                if self.running && !released {
                    // The transfer may still use the memory, and NIXL does not report when it stops. So the memory is
                    // leaked.
                    std::mem::forget(std::mem::take(&mut self.memory));
                }
            }
            for list in self.lists.into_iter().filter(|list| !list.is_null()) {
                (f.destroy_xfer_dlist)(list);
            }
        }
    }
}

fn text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::Invalid(format!("'{}' contains a zero byte", text.escape_default())))
}

fn check(call: &'static str, what: &str, status: Status) -> Result<(), Error> {
    if status == raw::SUCCESS { Ok(()) } else { Err(Error::Refused { call, what: what.to_owned(), status }) }
}
