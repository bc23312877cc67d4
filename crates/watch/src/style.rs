//! The style of the page: one column on a telephone, light and dark, a visible focus.

/// No image, font or rule from elsewhere.
pub const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--pale:#57606a;--paper:#fff;\
--box:#f4f6f8;--line:#0b57d0;\
--bad:#b3261e;--warn:#7a4d00;--edge:#d0d7de}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--pale:#9da7b1;--paper:#0d1117;--box:#161b22;\
--line:#79b8ff;--bad:#ff8a80;--warn:#f0b72f;--edge:#30363d}}\
*{box-sizing:border-box}body{margin:0 auto;padding:1rem;max-width:84rem;background:var(--paper);\
color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.25rem;overflow-wrap:anywhere;margin:.25rem 0}\
h2{font-size:1.1rem;margin:1.5rem 0 .5rem}\
nav{display:flex;flex-wrap:wrap;gap:.25rem 1rem}\
a{color:var(--line);padding:.4rem 0;display:inline-block}\
a:focus-visible,[tabindex]:focus-visible{outline:3px solid var(--line);outline-offset:2px}\
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:1rem}\
figure{margin:0;padding:.75rem;background:var(--box);\
border:1px solid var(--edge);border-radius:.5rem}\
svg{width:100%;height:auto;display:block}svg text{fill:var(--pale);font-size:13px}\
@media(max-width:40rem){svg text{font-size:22px}}\
.grid{stroke:var(--edge)}.line{fill:none;stroke:var(--line);stroke-width:2}.dot{fill:var(--line)}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}th,td{text-align:left;\
padding:.35rem .75rem .35rem 0;border-bottom:1px solid var(--edge);\
overflow-wrap:anywhere;vertical-align:top}\
.critical{color:var(--bad);font-weight:600}.warning{color:var(--warn);font-weight:600}\
p.pale{color:var(--pale)}";
