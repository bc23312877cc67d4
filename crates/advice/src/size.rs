//! The rules about session size: exclusions, and limits to raise.
//!
//! Invariant: measurements override a server's default limit, which overrides what the store could
//! take. If a limit can be raised, the rule names the setting. Rows are read by `large`.

use sessile_core::Limits;
use sessile_results::server_limits::{DefaultLimit, stock};

use crate::candidate::Candidate;
use crate::large::{AcceptedPayload, LostPayload, MeasuredServer, RefusedPayload};
use crate::rules::whole;
use crate::site::Site;

pub(crate) fn too_large(site: &Site, it: &Candidate) -> Option<String> {
    let (most, large) = (it.capabilities.value_bytes_max, &it.measured.large);
    if site.payload_bytes > most {
        return Some(format!("it takes sessions of at most {} bytes", shown(most)));
    }
    if let Some(lost) = large.lost {
        return Some(was_lost(lost, site, it));
    }
    if large.accepted.is_some() {
        return None;
    }
    if let Some(refused) = large.refused {
        return Some(format!("{}: {}", was_refused(refused), remedy(site, it)));
    }
    let stock = stock_below(site, it)?;
    let another = stock.another.map_or(String::new(), |another| format!(" ({another})"));
    let limit = shown(stock.bytes);
    Some(format!(
        "with its defaults its server takes sessions of at most {limit} bytes{another}: {}",
        remedy(site, it)
    ))
}

pub(crate) fn to_raise(site: &Site, it: &Candidate) -> Option<String> {
    let (large, server) = (&it.measured.large, it.capabilities.server?);
    if large.lost.is_some() {
        return None;
    }
    let setting = stock(it.capabilities.server).map_or("limit", |stock| stock.setting);
    let AcceptedPayload { by, bytes } = large.accepted?;
    match (by, large.refused) {
        (MeasuredServer::Raised(setting), _) => {
            let (bytes, stock) = (shown(bytes), stock_below(site, it)?);
            Some(format!(
                "start {server} with {setting} or larger: so it was measured, and takes {bytes} \
                 bytes, with its defaults {} at most",
                shown(stock.bytes)
            ))
        }
        (MeasuredServer::Users, _) => {
            let (bytes, stock) = (shown(bytes), stock_below(site, it)?);
            Some(format!(
                "keep the {setting} of {server} as it is on the server that was measured by its \
                 URL, which takes {bytes} bytes: with its defaults it takes {} at most",
                shown(stock.bytes)
            ))
        }
        (MeasuredServer::Default, Some(refused)) if refused.as_configured => {
            let refused = was_refused(refused);
            Some(format!(
                "{refused}, and one with its defaults takes it: start {server} with a larger \
                 {setting}"
            ))
        }
        (MeasuredServer::Default, _) => None,
    }
}

fn was_lost(lost: LostPayload, site: &Site, it: &Candidate) -> String {
    let LostPayload { payload_bytes, by, silent } = lost;
    let size = shown(payload_bytes);
    let is_above_default = stock(it.capabilities.server)
        .is_some_and(|stock| by == MeasuredServer::Default && stock.bytes < payload_bytes);
    let remedy = |other: &str| if is_above_default { remedy(site, it) } else { other.to_owned() };
    if silent {
        return format!(
            "of {size} bytes a session was acknowledged and then not there: lost silently, which \
             is worse than refused, because nobody is told; {}",
            remedy("use a store that takes or refuses them")
        );
    }
    format!(
        "of {size} bytes a session was refused and the one that it should have replaced was lost, \
         which is worse than refused alone; {}",
        remedy("use a store that takes them")
    )
}

fn was_refused(RefusedPayload { payload_bytes, limit, as_configured }: RefusedPayload) -> String {
    let by = if as_configured { " by the server that was measured by its URL" } else { "" };
    let limit =
        limit.map_or(String::new(), |limit| format!(" by a limit of {} bytes", shown(limit)));
    format!("a session of {} bytes was refused{by}{limit}", shown(payload_bytes))
}

fn remedy(site: &Site, it: &Candidate) -> String {
    let (wanted, server) = (site.payload_bytes, it.capabilities.server);
    match (stock(server), server) {
        (Some(DefaultLimit { setting, .. }), Some(server)) => {
            let most = shown(it.capabilities.value_bytes_max);
            let raise =
                format!("start {server} with a larger {setting}, which goes up to {most} bytes");
            if wanted > Limits::PAYLOAD_BYTES_MAX_DEFAULT {
                return raise;
            }
            format!(
                "{raise}, and measure it: sessile bench cycle --stores URL --sessions 10 --payload \
                 {wanted}"
            )
        }
        (None, Some(server)) => {
            format!("raise what {server} takes, or use a store that takes them")
        }
        (_, None) => "use a store that takes them".to_owned(),
    }
}

/// The server's default limit, if the site's sessions exceed it.
fn stock_below(site: &Site, it: &Candidate) -> Option<DefaultLimit> {
    stock(it.capabilities.server).filter(|stock| site.payload_bytes > stock.bytes)
}

fn shown(bytes: u64) -> String {
    whole(bytes as f64)
}
