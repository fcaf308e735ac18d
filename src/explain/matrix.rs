//! Explains the support matrix: one page for each class of GPU, for each kind of storage, and for a pair of them.

use super::answer::Answer;
use super::answer::Fact;
use super::answer::Kind;
use crate::checks::matrix::{GpuClass, ROUTES, Row, Storage, Support, support};

/// The query for the matrix.
const WORD: &str = "matrix";

/// `matrix` returns all rows, and `matrix ID…` returns these rows. A class of GPU and a kind of storage together
/// return the routes of the pair. `None` for another query.
pub(super) fn answers(query: &str) -> Option<Vec<Answer>> {
    let mut words = query.split_whitespace();
    if !words.next()?.eq_ignore_ascii_case(WORD) {
        return None;
    }
    let words: Vec<String> = words.map(str::to_lowercase).collect();
    let gpus: Vec<GpuClass> = GpuClass::ALL.iter().copied().filter(|gpu| is_meant(&gpu.row(), &words)).collect();
    let storages: Vec<Storage> = Storage::ALL.iter().copied().filter(|one| is_meant(&one.row(), &words)).collect();
    if let ([gpu], [storage], false) = (gpus.as_slice(), storages.as_slice(), words.is_empty()) {
        return Some(vec![together(*gpu, *storage)]);
    }
    let gpus = gpus.into_iter().map(|gpu| answer(Kind::GpuClass, &gpu.row()));
    Some(gpus.chain(storages.into_iter().map(|one| answer(Kind::Storage, &one.row()))).collect())
}

fn is_meant(row: &Row, words: &[String]) -> bool {
    words.is_empty() || words.iter().any(|word| word == row.id)
}

fn answer(kind: Kind, row: &Row) -> Answer {
    let mut answer = Answer::new(kind, row.id, row.name);
    for route in ROUTES {
        answer.facts.push(Fact { name: route.as_str(), value: one(row.support(route)) });
    }
    answer.facts.push(Fact { name: "Source", value: row.source.to_owned() });
    answer
}

fn together(gpu: GpuClass, storage: Storage) -> Answer {
    let (gpu_row, storage_row) = (gpu.row(), storage.row());
    let name = format!("{} {}", gpu_row.id, storage_row.id);
    let mut answer = Answer::new(Kind::Pair, name, format!("{}, with {}", gpu_row.name, storage_row.name));
    for route in ROUTES {
        let parts = support(gpu, storage, route);
        let value = match parts.as_slice() {
            [] => "yes".to_owned(),
            parts => parts.iter().map(|part| one(*part)).collect::<Vec<_>>().join("; "),
        };
        answer.facts.push(Fact { name: route.as_str(), value });
    }
    let sources = format!("{}; {}", gpu_row.source, storage_row.source);
    answer.facts.push(Fact { name: "Source", value: sources });
    answer
}

fn one(support: Support) -> String {
    match support {
        Support::Yes => "yes".to_owned(),
        Support::If(condition) => format!("if: {condition}"),
        Support::No(reason) => format!("no: {reason}"),
    }
}
