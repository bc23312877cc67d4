//! Answers of a server that are lost: the server has done it, and the caller was not told.

use super::*;

pub(crate) const CASES: &[Case] =
    &[Case::new("a begin or a peek whose answer is lost is asked again", |bed, _| {
        let (proxy, url) = bed.proxy()?;
        let store = open(&url)?;
        let key = store.stored("x")?;
        for passing in 0.. {
            let (begin_lost, begun) = proxy.losing_answer(passing, || (), || store.lock(&key));
            begun?.expect_text("begin", "x")?;
            let (peek_lost, text) = proxy.losing_answer(passing, || (), || store.text(&key));
            equal("peek", text?.as_deref(), Some("x"))?;
            if !begin_lost && !peek_lost {
                break;
            }
        }
        Ok(())
    })
    .needs(&[SERVED])];
