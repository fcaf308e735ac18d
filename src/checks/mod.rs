//! Judgement: facts become findings, findings become one verdict for each path and GPU. Does nothing.
