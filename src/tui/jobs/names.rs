//! The tensor names of a model in a form that can be searched and sorted quickly.

use crate::core::ModelInfo;
use crate::tui::pen::width;
use std::path::{Path, PathBuf};

/// The tensor names of a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameIndex {
    of: (PathBuf, usize),
    /// All names in lower case, one per line.
    text: String,
    /// The start of each name in `text`, in bytes.
    starts: Vec<u32>,
    /// Width of the longest name in columns.
    longest: u16,
    /// The tensors sorted by name.
    order: Vec<u32>,
}

impl NameIndex {
    pub(crate) fn of(model: &ModelInfo) -> Self {
        let mut names = Self { of: (model.path.clone(), model.tensors.len()), ..Self::default() };
        for tensor in &model.tensors {
            names.starts.push(u32::try_from(names.text.len()).unwrap_or(u32::MAX));
            names.text.extend(tensor.name.chars().flat_map(char::to_lowercase));
            names.text.push('\n');
            names.longest = names.longest.max(u16::try_from(width(&tensor.name)).unwrap_or(u16::MAX));
        }
        names.sorted(model.tensors.len());
        names
    }

    /// Width of the longest name in columns.
    pub(crate) const fn longest(&self) -> u16 {
        self.longest
    }

    pub(crate) fn is_of(&self, path: &Path, count: usize) -> bool {
        self.of.1 == count && self.of.0 == path
    }

    /// For each tensor: whether its name contains the text, which must be in lower case.
    pub(crate) fn containing(&self, text: &str) -> Vec<bool> {
        let mut found = vec![false; self.starts.len()];
        let mut at = 0;
        for (place, _) in self.text.match_indices(text) {
            // The matches are in the order of the text, so one pass over the names is enough.
            while self.starts.get(at + 1).is_some_and(|next| *next as usize <= place) {
                at += 1;
            }
            if let Some(flag) = found.get_mut(at) {
                *flag = true;
            }
        }
        found
    }

    /// The tensors sorted by name. They are sorted on the first call.
    pub(crate) fn sorted(&mut self, model_len: usize) -> &[u32] {
        if self.order.len() != model_len {
            let (text, starts) = (self.text.as_bytes(), &self.starts);
            let name = |tensor: u32| {
                let from = starts.get(tensor as usize).map_or(0, |at| *at as usize);
                let to = starts.get(tensor as usize + 1).map_or(text.len(), |at| *at as usize);
                text.get(from..to).unwrap_or_default()
            };
            // All names begin with the same text. The eight bytes after it distinguish most of them in one
            // comparison.
            let all = || (0..u32::try_from(model_len).unwrap_or(u32::MAX)).map(name);
            let first = name(0);
            let alike = all().map(|n| n.iter().zip(first).take_while(|(a, b)| a == b).count()).min().unwrap_or(0);
            let key = |name: &[u8]| {
                let mut key = [0; 8];
                key.iter_mut().zip(name.get(alike..).unwrap_or_default()).for_each(|(to, from)| *to = *from);
                u64::from_be_bytes(key)
            };
            let mut keys: Vec<(u64, u32)> = all().map(key).zip(0..).collect();
            keys.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| name(a.1).cmp(name(b.1))));
            self.order = keys.into_iter().map(|(_, tensor)| tensor).collect();
        }
        &self.order
    }
}
