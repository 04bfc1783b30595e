"""Style sheet of the fleet page: light, dark and print. In Python so that the code digest of a rule sees it change."""

FLEET_CSS = """
:root { color-scheme: light dark; --ink: #1f2328; --muted: #57606a; --paper: #fff; --soft: #f3f4f6; --rule: #d0d7de;
  --green: #009E73; --amber: #E69F00; --red: #B03A00; --abstain: #4D4D4D; --focus: #0550ae; --warn: #b30000 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --muted: #9da7b3; --paper: #0d1117; --soft: #161b22;
  --rule: #3d444d; --green: #2fbf95; --amber: #e8b23f; --red: #ee7f4e; --abstain: #a3a9b0; --focus: #79b8ff;
  --warn: #ff8a80 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.2rem 1.5rem 3rem; max-width: 100rem; color: var(--ink); background: var(--paper);
  font: 15px/1.45 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0 0 .3rem } h2 { font-size: 1.15rem; margin: 1.8rem 0 .5rem }
p { margin: .3rem 0; max-width: 75ch } .muted, footer { color: var(--muted) }
.watermark { color: var(--warn); font-weight: 700 }
.counts { display: flex; flex-wrap: wrap; gap: .5rem 1.4rem; padding: 0; margin: .8rem 0; list-style: none }
.counts b { font-size: 1.25rem; font-variant-numeric: tabular-nums }
.action { border-left: .45rem solid; padding-left: .45rem; white-space: nowrap }
.action.green { border-color: var(--green) } .action.amber { border-color: var(--amber) }
.action.red { border-color: var(--red) } .action.abstain { border-color: var(--abstain) }
form { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; align-items: center; margin: .6rem 0 }
fieldset { border: 1px solid var(--rule); border-radius: .3rem; padding: .15rem .6rem .3rem; display: flex;
  flex-wrap: wrap; gap: .2rem .9rem }
input[type=search], select { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--muted);
  border-radius: .3rem; padding: .25rem .5rem; min-width: 11rem }
:focus-visible { outline: 3px solid var(--focus); outline-offset: 2px }
.scroll { overflow-x: auto; border: 1px solid var(--rule); border-radius: .3rem }
table { border-collapse: collapse; width: 100% }
caption { text-align: left; padding: .5rem .7rem; color: var(--muted) }
th, td { padding: .4rem .7rem; text-align: left; vertical-align: top; border-top: 1px solid var(--rule) }
thead th { background: var(--soft); white-space: nowrap }
tbody th { font-weight: 600; overflow-wrap: anywhere; min-width: 11.5rem }
th button { all: unset; cursor: pointer; font-weight: 600 } th button:focus-visible { outline: 3px solid var(--focus) }
th button::after { content: " \\2195"; color: var(--muted) }
th[aria-sort=ascending] button::after { content: " \\2191"; color: var(--ink) }
th[aria-sort=descending] button::after { content: " \\2193"; color: var(--ink) }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap } .ends { color: var(--muted) }
td.reason { min-width: 15rem; overflow-wrap: anywhere } td.reason p, td.reason ul { margin: .3rem 0 }
summary b { white-space: nowrap } summary { cursor: pointer; display: flex; gap: .5rem; align-items: baseline }
summary::before { content: "\\25B8"; color: var(--muted) } details[open] summary::before { content: "\\25BE" }
.first { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden }
details[open] .first { -webkit-line-clamp: none }
code { font-size: .86em; color: var(--muted) }
.loads { border-collapse: collapse; width: auto } tr.none td { color: var(--muted) }
svg { width: 100%; max-width: 70rem; height: auto; display: block; font: 12px system-ui, sans-serif }
svg text { fill: var(--ink) } svg .strong { font-weight: 700 }
.ground { opacity: .42 } .ground.green { fill: var(--green) } .ground.amber { fill: var(--amber) }
.ground.red { fill: var(--red) } .mark { stroke: var(--paper); stroke-width: .8 }
.point.green .mark { fill: var(--green) } .point.amber .mark { fill: var(--amber) }
.point.red .mark { fill: var(--red) } .point.abstain .mark { fill: var(--abstain) }
.interval { stroke: var(--muted); stroke-width: 1.4 } .plumb { stroke: var(--ink); stroke-width: .5; opacity: .3 }
.point.out { opacity: .08 }
@media print { body { padding: 0; max-width: none; font-size: 10px } form, .screen { display: none }
  .scroll { overflow: visible; border: 0 } thead { display: table-header-group } tr { break-inside: avoid }
  td.reason { min-width: 0 } th button::after { content: "" } svg { max-height: 18cm } }
"""
