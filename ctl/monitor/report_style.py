# SPDX-License-Identifier: GPL-2.0-or-later
"""The style sheet of a report's page."""

from __future__ import annotations

from typing import Final

__all__ = ["STYLE"]

STYLE: Final = """
:root{--paper:#fff;--ink:#1c1e21;--soft:#5a6068;--line:#d5d9de;--tile:#f3f5f7;
--blue:#0072b2;--orange:#d55e00;--green:#009e73;--band:#f0e442}
@media(prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e4e7eb;--soft:#a3abb5;--line:#3a4048;--tile:#20242a;
--blue:#56b4e9;--orange:#e69f00;--green:#2fd3a5;--band:#5d5a1c}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:62rem;margin:0 auto;padding:1rem}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.35rem;margin:2rem 0 .5rem}h3{font-size:1.1rem;
margin:2rem 0 .5rem}
.span{color:var(--soft);margin:0 0 1rem}.empty{padding:2rem;background:var(--tile);border-radius:.5rem}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem;margin:0}
dl div{background:var(--tile);border-radius:.5rem;padding:.6rem .8rem}dt{color:var(--soft);font-size:.85rem}
dd{margin:0;font-weight:600}
.job{display:grid;grid-template-columns:8rem 1fr;gap:.6rem;align-items:center}
.job b{overflow-wrap:anywhere;font-weight:500;font-size:.9rem;line-height:1.2}
svg{display:block;width:100%}svg.bars{height:1.4rem;border-bottom:1px solid var(--line)}svg.lines{height:9rem}
rect.run,i.run{fill:var(--blue);background:var(--blue)}rect.stop,i.stop{fill:var(--orange);background:var(--orange)}
rect.wait,i.wait{fill:var(--soft);background:var(--soft)}rect.band,i.band{fill:var(--band);background:var(--band)}
rect.band{opacity:.45}
polyline{fill:none;stroke-width:2;vector-effect:non-scaling-stroke;stroke-linecap:round;stroke-linejoin:round}
polyline.achieved,polyline.cpu{stroke:var(--blue)}polyline.set,polyline.memory{stroke:var(--orange);
stroke-dasharray:7 5}polyline.io{stroke:var(--green);stroke-dasharray:1 5;stroke-width:3}
path.grid{fill:none;stroke:var(--line);vector-effect:non-scaling-stroke}
.chart{display:grid;grid-template-columns:3.2rem 1fr;gap:.4rem}
.scale{display:flex;flex-direction:column;justify-content:space-between;text-align:right}
.scale,.axis{color:var(--soft);font-size:.8rem;line-height:1}
.axis{display:flex;justify-content:space-between;padding-top:.3rem;gap:.5rem}
.axis.job{margin-left:8.6rem}.axis.chart{margin-left:3.6rem}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;margin:.2rem 0 .6rem;font-size:.9rem}
i{display:inline-block;width:1.4rem;height:.8rem;vertical-align:-.05rem}i.stop{height:.4rem}i.wait{height:.15rem;
vertical-align:.25rem}
i.achieved,i.cpu,i.set,i.memory,i.io{height:0;vertical-align:.25rem;border-top:2px solid var(--blue)}
i.set,i.memory{border-top:2px dashed var(--orange)}i.io{border-top:3px dotted var(--green)}
table{border-collapse:collapse;width:100%;font-size:.9rem;margin-top:1rem}
th{text-align:left;color:var(--soft);font-weight:500}td,th{padding:.3rem .8rem .3rem 0;border-bottom:1px solid
var(--line);vertical-align:top;overflow-wrap:anywhere}
@media(max-width:40rem){.job{grid-template-columns:5rem 1fr}.axis.job{margin-left:5.6rem}
thead{display:none}tr{display:block;padding:.5rem 0;border-bottom:1px solid var(--line)}
td{display:flex;gap:.8rem;border:0;padding:.1rem 0}td:empty{display:none}
td::before{content:attr(data-name);flex:0 0 7rem;color:var(--soft)}td[data-name=""]::before{content:"what"}}
"""
