//! Hands: one file a load strategy, the lane process and its protocol, verification.
