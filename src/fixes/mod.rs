//! Remedies: plan, preview, apply, verify, undo, journal. Never acts without consent.
