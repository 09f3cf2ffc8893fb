"""The style of the page: calm, light or dark as the reader's system is, and readable on a telephone.

The page has no script, and the Content-Security-Policy lets in this style alone, by its hash.
"""

from __future__ import annotations

import base64
import hashlib

STYLE = """
:root { color-scheme: light dark;
  --ground: #f5f6f8; --sheet: #ffffff; --line: #dfe3e8; --ink: #1b2430; --soft: #566173;
  --used: #2f6db3; --rest: #e3e8ee; --mark: #7d2228; --good: #1c6b45; --doubt: #865000; --bad: #a8252b; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #10141a; --sheet: #181e26; --line: #2b333e; --ink: #e5e9ef; --soft: #9ba6b5;
  --used: #5f9fe0; --rest: #2c3540; --mark: #ffb3b3; --good: #72cf9d; --doubt: #eeb45f; --bad: #ff8f8f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 90rem; padding: 1.5rem clamp(.75rem, 2.5vw, 2rem) 2.5rem; background: var(--ground);
  color: var(--ink); font: 15px/1.45 system-ui, "Segoe UI", "Noto Sans", sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 1.5rem; font-weight: 650; letter-spacing: -.01em; }
h2 { margin: 2rem 0 .6rem; font-size: 1rem; font-weight: 650; }
p { margin: .2rem 0; }
.soft, small { color: var(--soft); }
small { display: block; font-size: .82rem; line-height: 1.35; white-space: normal; }
.warn { color: var(--bad); font-weight: 600; }
.sheet { background: var(--sheet); border: 1px solid var(--line); border-radius: .6rem; }
table { width: 100%; margin-top: 1.4rem; border-collapse: separate; border-spacing: 0; }
th { padding: .6rem .65rem; color: var(--soft); font-size: .8rem; font-weight: 500; text-align: left;
  white-space: nowrap; }
td { padding: .8rem .65rem; vertical-align: top; white-space: nowrap; }
tr:first-child > td { border-top: 1px solid var(--line); }
th:first-child, td:first-child { padding-left: 1.1rem; }
th:last-child, td:last-child { padding-right: 1.1rem; }
td.what { white-space: normal; min-width: 9.6rem; }
td.how { min-width: 7rem; max-width: 13rem; }
td.memory { width: 20%; min-width: 14.2rem; }
td.value { min-width: 6.9rem; } td.heat { min-width: 9.4rem; } td.clock { min-width: 7.6rem; }
td.value svg { max-width: 9rem; }
.ends { display: flex; flex-wrap: wrap; justify-content: space-between; column-gap: 1rem; }
.unknown { color: var(--soft); }
.state { font-weight: 600; }
.state::before { content: ""; display: inline-block; width: .55em; height: .55em; margin-right: .45em;
  border-radius: 50%; background: currentColor; vertical-align: .06em; }
.active { color: var(--good); } .suspended { color: var(--soft); }
.stalled, .resetting { color: var(--doubt); } .lost { color: var(--bad); }
/* A bar is as high as a small line, so that what is below stands on one line across the row. */
svg { display: block; width: 100%; }
.bar { height: .5rem; margin: .28rem 0 .26rem; border-radius: .25rem; }
.spark { height: 1.5rem; margin-bottom: .2rem; }
.spark path { fill: none; stroke: var(--used); stroke-width: 1.5; stroke-linecap: round; stroke-linejoin: round;
  vector-effect: non-scaling-stroke; }
.rest { fill: var(--rest); } .used { fill: var(--used); } .hot .used { fill: var(--bad); } .mark { fill: var(--mark); }
.old { color: var(--doubt); font-weight: 600; }
.troubles, .parts { padding-top: 0; white-space: normal; }
.troubles ul, .parts ul { margin: 0; padding: 0; list-style: none; }
.troubles ul { display: flex; flex-wrap: wrap; gap: .15rem 1.6rem; font-size: .9rem; color: var(--doubt);
  font-weight: 600; }
.parts ul { display: grid; grid-template-columns: repeat(4, 1fr); gap: .7rem 1.6rem; font-size: .9rem; }
.troubles li, .parts li { margin: 0; }
.fold, header a { display: inline-block; padding: .25rem 0; }
.skip { position: absolute; left: -100rem; } .skip:focus { position: static; }
a:focus-visible { outline: 2px solid var(--used); outline-offset: 2px; border-radius: .15rem; }
ul { margin: 0; padding: .7rem 1.1rem .7rem 2.1rem; }
li + li { margin-top: .25rem; }
.ages { margin-top: 1.6rem; font-size: .82rem; }
footer { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin-top: 1.2rem; }
footer a { padding: .15rem 0; }
a { color: var(--used); } a:hover { text-decoration-thickness: 2px; }
@media (max-width: 76rem) {
  table, td { display: block; width: auto; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table.sheet { background: none; border: 0; }
  tbody { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.2rem, 1fr)); gap: .8rem 1rem;
    margin-bottom: .8rem; padding: 1rem 1.1rem; background: var(--sheet); border: 1px solid var(--line);
    border-radius: .6rem; }
  tr { display: contents; }
  tr > td, td:first-child, td:last-child { padding: 0; border: 0; min-width: 0; white-space: normal; }
  tr:first-child > td { border: 0; }
  td.what, td.how, td.troubles { order: -1; }
  td.value, td.heat, td.clock { min-width: 0; }
  td.what { grid-column: 1 / -2; min-width: 0; }
  td.how { grid-column: -2 / -1; text-align: right; min-width: 0; max-width: none; }
  td.memory, td.troubles, td.parts { grid-column: 1 / -1; width: auto; min-width: 0; }
  .parts ul { grid-template-columns: repeat(auto-fill, minmax(8.2rem, 1fr)); gap: .7rem 1rem; }
  td.none { display: none; }
  td.value::before { content: attr(data-label); display: block; color: var(--soft); font-size: .8rem; }
}
"""
STYLE_HASH = "sha256-" + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
