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
  font-variant-numeric: tabular-nums; }
h1 { margin: 0; font-size: 1.5rem; font-weight: 650; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 .6rem; font-size: 1rem; font-weight: 650; }
p { margin: .2rem 0; }
.soft, small { color: var(--soft); }
small { display: block; font-size: .82rem; line-height: 1.35; }
.warn { color: var(--bad); font-weight: 600; }
.sheet { background: var(--sheet); border: 1px solid var(--line); border-radius: .6rem; }
table { width: 100%; margin-top: 1.4rem; border-collapse: separate; border-spacing: 0; }
th { padding: .6rem .65rem; color: var(--soft); font-size: .8rem; font-weight: 500; text-align: left;
  white-space: nowrap; }
td { padding: .8rem .65rem; border-top: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
th:first-child, td:first-child { padding-left: 1.1rem; }
th:last-child, td:last-child { padding-right: 1.1rem; }
td.what { white-space: normal; min-width: 7.5rem; overflow-wrap: anywhere; }
td.how { max-width: 13rem; }
td.memory { width: 22%; min-width: 11rem; }
td.value { min-width: 6.2rem; } td.value svg { max-width: 9rem; }
.ends { display: flex; justify-content: space-between; gap: 1rem; }
.unknown { color: var(--soft); }
.state { font-weight: 600; }
.state::before { content: ""; display: inline-block; width: .55em; height: .55em; margin-right: .45em;
  border-radius: 50%; background: currentColor; vertical-align: .06em; }
.active { color: var(--good); } .suspended { color: var(--soft); }
.stalled, .resetting { color: var(--doubt); } .lost { color: var(--bad); }
svg { display: block; width: 100%; margin: .35rem 0 .3rem; }
.bar { height: .5rem; border-radius: .25rem; }
.spark { height: 1.5rem; margin: .4rem 0 0; }
.spark path { fill: none; stroke: var(--used); stroke-width: 1.5; stroke-linecap: round; stroke-linejoin: round;
  vector-effect: non-scaling-stroke; }
.rest { fill: var(--rest); } .used { fill: var(--used); } .mark { fill: var(--mark); }
.old { color: var(--doubt); font-weight: 600; }
.troubles { margin: .35rem 0 0; padding: 0; list-style: none; font-size: .82rem; line-height: 1.35;
  color: var(--doubt); font-weight: 600; white-space: normal; }
.parts td { padding-top: 0; border: 0; white-space: normal; }
.parts ul { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .7rem 1.2rem;
  margin: 0; padding: 0 0 .9rem; list-style: none; }
.parts li { margin: 0; }
.skip { position: absolute; left: -100rem; } .skip:focus { position: static; }
a:focus-visible { outline: 2px solid var(--used); outline-offset: 2px; border-radius: .15rem; }
ul { margin: 0; padding: .7rem 1.1rem .7rem 2.1rem; } li { overflow-wrap: anywhere; }
li + li { margin-top: .25rem; }
.ages { margin-top: 1.6rem; font-size: .82rem; }
footer { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin-top: 1.2rem; }
a { color: var(--used); } a:hover { text-decoration-thickness: 2px; }
@media (max-width: 71rem) {
  table, tbody, tr, td { display: block; width: auto; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table.sheet { background: none; border: 0; }
  tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.2rem, 1fr)); gap: .8rem 1rem;
    margin-bottom: .8rem; padding: 1rem 1.1rem; background: var(--sheet); border: 1px solid var(--line);
    border-radius: .6rem; }
  td, td:first-child, td:last-child { padding: 0; border: 0; min-width: 0; white-space: normal; }
  td.what { grid-column: 1 / -2; } td.how { grid-column: -2 / -1; text-align: right; max-width: none; }
  tr.parts { display: block; margin-top: -1.4rem; border-top: 0; border-radius: 0 0 .6rem .6rem; }
  td.memory { grid-column: 1 / -1; width: auto; }
  td.none { display: none; }
  td.value::before { content: attr(data-label); display: block; color: var(--soft); font-size: .8rem; }
}
"""
STYLE_HASH = "sha256-" + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
