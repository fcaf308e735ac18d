//! Tests of the names of files and of the tensors in them.

use crate::harness::{Place, Seen};
use std::path::Path;

/// Writes a safetensors file with one tensor of 1 MiB.
fn write_model(path: &Path, tensor: &str) {
    let header = format!(r#"{{"{tensor}":{{"dtype":"U8","shape":[1048576],"data_offsets":[0,1048576]}}}}"#);
    let length = (header.len() as u64).to_le_bytes();
    std::fs::write(path, [&length, header.as_bytes(), &[1; 1048576]].concat()).unwrap();
}

#[test]
fn a_file_that_replaces_another_one_has_its_own_row_and_tensors() {
    let Some(place) = Place::new() else { return };
    let (model, other) = (place.file("model.safetensors"), place.file("other.safetensors"));
    write_model(&model, "first");
    write_model(&other, "second");
    let run = format!("{} {} read", place.file("linked").display(), model.display());
    let seen = Seen::of({
        let mut shell = place.watch(&["--json"]);
        shell.args(["sh", "-c", &format!("{run} 3; mv {} {}; {run} 5", other.display(), model.display())]);
        shell
    });
    let path = model.canonicalize().unwrap();
    let files = seen.report["program"]["transfers"].as_array().unwrap();
    let row = |path: &str| files.iter().find(|file| file["path"] == path).unwrap();
    let [first, second] = [path.display().to_string(), format!("{} (file 2)", path.display())].map(|path| row(&path));
    assert_eq!((&first["reads"]["count"], &second["reads"]["count"]), (&3.into(), &5.into()));
    assert_eq!(
        (&second["tensors"][0]["name"], &second["tensors_unknown"]),
        (&"second".into(), &serde_json::Value::Null)
    );
    // gds-top can look at the first file after it was replaced.
    let tensors = first["tensors"].as_array().unwrap();
    match &first["tensors_unknown"] {
        serde_json::Value::Null => assert_eq!(tensors[0]["name"], "first"),
        why => assert_eq!((why, tensors.len()), (&"other-file".into(), 0)),
    }
}

#[test]
fn a_registration_without_a_descriptor_has_no_name() {
    let Some(place) = Place::new() else { return };
    let source = r#"
#include <dlfcn.h>
#include <stdlib.h>
int main(void)
{
    struct { unsigned type; union { int fd; void *handle; } handle; const void *ops; } file = {1, {-1}, 0};
    void *handle = 0, *library = dlopen(getenv("LIBRARY"), RTLD_NOW);
    ((void (*)(void))dlsym(library, "cuFileDriverOpen"))();
    ((unsigned long (*)(void **, void *))dlsym(library, "cuFileHandleRegister"))(&handle, &file);
    return 0;
}
"#;
    std::fs::write(place.file("bad.c"), source).unwrap();
    let mut cc = std::process::Command::new("cc");
    cc.arg("-o").args([place.file("bad"), place.file("bad.c")]).arg("-ldl");
    assert!(cc.status().unwrap().success());
    let mut command = place.watch(&["--json"]);
    command.arg(place.file("bad"));
    let seen = Seen::of(command);
    let files = seen.report["program"]["transfers"].as_array().unwrap();
    let names: Vec<_> = files.iter().map(|file| &file["path"]).collect();
    assert_eq!((seen.count("cuFileHandleRegister"), names), (1, vec![&"(unknown file)".into()]));
}

#[test]
fn a_process_has_the_handles_and_buffers_of_its_ancestor_after_the_process_between_has_ended() {
    let Some(place) = Place::new() else { return };
    let seen = place.seen("linked", &[], &["register", "descend", "20"]);
    assert_eq!(seen.status(), Some(0), "{}", String::from_utf8_lossy(&seen.output.stderr));
    let reads = &seen.file(&place.data())["reads"];
    assert_eq!(
        (&reads["count"], &reads["unregistered"], &reads["maybe_registered"]),
        (&20.into(), &0.into(), &0.into())
    );
}

#[test]
fn the_memory_of_a_child_is_what_was_registered_at_the_fork() {
    let Some(place) = Place::new() else { return };
    for (change, expected) in [("registered", [20, 20, 0]), ("released", [20, 0, 20])] {
        let seen = place.seen("linked", &[], &[change, "20"]);
        let reads = &seen.file(&place.data())["reads"];
        let counts = ["count", "unregistered", "maybe_registered"].map(|name| reads[name].as_u64().unwrap());
        assert_eq!((seen.status(), counts), (Some(0), expected), "{change}");
    }
}
