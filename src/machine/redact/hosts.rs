//! Redacts host names by their domain. The name of one host shows the domain of the other hosts.

use super::{HOST, MIN_WORD, ORDINARY, Redactor};

impl Redactor {
    /// Registers the names in `/etc/hosts` and the search domains in `/etc/resolv.conf`.
    pub(in crate::machine) fn names(&mut self, hosts: &str, resolv: &str) {
        for line in hosts.lines().map(|line| line.split('#').next().unwrap_or_default()) {
            for name in line
                .split_whitespace()
                .skip(1)
                .filter(|name| !name.starts_with("localhost") && !name.starts_with("ip6-"))
            {
                self.host(name);
            }
        }
        for line in resolv.lines() {
            if let Some(domains) = line.strip_prefix("search ").or_else(|| line.strip_prefix("domain ")) {
                domains.split_whitespace().for_each(|domain| self.domain(domain));
            }
        }
    }

    pub(super) fn domain(&mut self, domain: &str) {
        let domain = domain.trim().trim_matches('.').to_ascii_lowercase();
        let is_name = domain.len() >= MIN_WORD
            && domain.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
            && domain.contains(|c: char| c.is_ascii_alphabetic());
        if is_name && !ORDINARY.contains(&domain.as_str()) && !self.domains.contains(&domain) {
            self.domains.push(domain);
            self.domains.sort_by_key(|domain| std::cmp::Reverse(domain.len()));
        }
    }

    /// Registers the domain after the name of a known host: `node17.corp.example`.
    pub(super) fn learn_domains(&mut self, text: &str) {
        let lower = text.to_ascii_lowercase();
        let hosts: Vec<String> = self
            .words
            .iter()
            .filter(|(kind, _, _)| *kind == HOST)
            .map(|(_, word, _)| format!("{}.", word.to_ascii_lowercase()))
            .collect();
        for host in hosts {
            for from in lower.split(host.as_str()).skip(1) {
                let end =
                    from.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.')).unwrap_or(from.len());
                let domain = from[..end].trim_matches(['.', '-']);
                // A single label may be a file extension.
                if domain.contains('.') {
                    self.domain(domain);
                }
            }
        }
    }

    /// Replaces host names in a known domain, and the domain itself.
    pub(super) fn hosts_of_domains(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for domain in self.domains.clone() {
            let lower = text.to_ascii_lowercase();
            if !lower.contains(&domain) {
                continue;
            }
            let of_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
            let (mut out, mut done, mut from) = (String::with_capacity(text.len()), 0, 0);
            while let Some(at) = lower[from..].find(&domain).map(|at| at + from) {
                let end = at + domain.len();
                from = end;
                let begin = lower[done..at]
                    .rfind(|c: char| !of_name(c) && c != '.')
                    .map_or(done, |i| done + i + lower[done + i..].chars().next().map_or(1, char::len_utf8));
                let is_whole = !lower[end..].starts_with(of_name) && (begin == at || lower[..at].ends_with('.'));
                if is_whole {
                    out.push_str(&text[done..begin]);
                    out.push_str(&self.replacement(HOST, &lower[begin..end], "host"));
                    done = end;
                }
            }
            out.push_str(&text[done..]);
            text = out;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_a_known_domain_go_and_ordinary_names_stay() {
        let mut redactor = Redactor::default();
        redactor.names("127.0.0.1 localhost\n127.0.1.1 zebra-17.corp.internal zebra-17\n10.0.0.9 filer42 # big\n::1 ip6-localhost\n", "search lab.example\n");
        assert_eq!(
            redactor.text("login01.corp.internal ZEBRA-17 /dev/mapper/zebra--17--vg-root filer42:/x a@corp.internal n1.lab.example corp.internals"),
            "host4 host2 /dev/mapper/host1--vg-root host3:/x a@redacted host5 corp.internals"
        );
        let mut redactor = Redactor::default();
        redactor.host("ubuntu");
        redactor.host("nvidia");
        assert_eq!(redactor.text("ID=ubuntu nvidia_fs"), "ID=ubuntu nvidia_fs");
    }

    #[test]
    fn the_domain_behind_a_known_host_is_learned() {
        let mut redactor = Redactor::default();
        redactor.host("zebra-17");
        redactor.learn(std::path::Path::new("/x"), "Hostname set to <zebra-17.corp.internal>, see zebra-17.log");
        let clean = redactor.text("zebra-17.corp.internal login01.corp.internal zebra-17.log");
        assert!(!clean.contains("corp") && !clean.contains("login01") && clean.ends_with(".log"), "{clean}");
    }
}
