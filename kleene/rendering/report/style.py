"""The page around the parts: its head, its style in light, dark and print, and a policy by which a browser loads and runs nothing."""

from __future__ import annotations

from kleene.rendering.markup import Markup, join, tag

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--soft:#f5f6f8;--line:#dde0e6;--ink:#1b1f27;--dim:#5d6675;
--turn:#3b6fd4;--stmt:#7d8798;--call:#d9822b;--memo:#2f9e6e;--tool:#8a56c2;--bad:#c93a3a;--bar:#cfe0fb;--good:#1f7d54}
@media (prefers-color-scheme:dark){:root{--bg:#14171c;--soft:#1d2129;--line:#333a46;--ink:#e6e9ef;--dim:#9aa4b5;
--turn:#6f9cf0;--stmt:#8c96a8;--call:#e89a4d;--memo:#4fc08d;--tool:#b18ae0;--bad:#f07070;--bar:#27405f;--good:#59c995}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:28px 24px 80px}
h1{font-size:22px;line-height:1.3;margin:0 0 8px;overflow-wrap:anywhere}
h2{font-size:17px;margin:36px 0 10px;padding-top:14px;border-top:1px solid var(--line)}
h3{font-size:15px;margin:22px 0 6px;overflow-wrap:anywhere}
p{margin:6px 0}.note,small,.dim{color:var(--dim);font-size:13px}
.error{color:var(--bad);white-space:pre-wrap;overflow-wrap:anywhere}
a{color:inherit}nav{font-size:13px;margin:14px 0;display:flex;flex-wrap:wrap;gap:4px 16px}
code,pre,.mono{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12.5px}
pre{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:9px 12px;margin:6px 0;white-space:pre-wrap;
overflow-wrap:anywhere;max-height:30em;overflow:auto;tab-size:4}
.badge{display:inline-block;border-radius:4px;padding:1px 8px;font-size:12.5px;font-weight:600;border:1px solid currentColor}
.badge.good{color:var(--good)}.badge.bad{color:var(--bad)}.badge.off{color:var(--dim)}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(122px,1fr));gap:10px;margin:16px 0}
.tiles div{background:var(--soft);border:1px solid var(--line);border-radius:8px;padding:8px 12px;min-width:0}
.tiles span{display:block;color:var(--dim);font-size:12.5px}.tiles strong{font-size:19px;font-weight:600;font-variant-numeric:tabular-nums;display:block}
.tiles small{display:block}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13.5px;margin:6px 0}
th{font-weight:600;color:var(--dim);font-size:12.5px;border-bottom:1px solid var(--line);padding:4px 8px;white-space:nowrap;vertical-align:bottom}
td{padding:4px 8px;border-bottom:1px solid var(--line);vertical-align:top}
.l{text-align:left;overflow-wrap:anywhere}.r{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.rows td{white-space:pre-wrap;max-width:40em}.rows .null{color:var(--dim)}
.plan td:first-child{min-width:18em}.costs td:first-child{width:26%;min-width:9em}.statements td:first-child{white-space:nowrap}
.meter{position:relative;display:block;min-width:7em;padding:0 6px}.meter i{position:absolute;right:0;top:2px;bottom:2px;background:var(--bar);border-radius:3px}
.meter b{position:relative;font-weight:400}
.off b{color:var(--bad)}
details{margin:6px 0}summary{cursor:pointer;overflow-wrap:anywhere}details>*:not(summary){margin-left:14px}
.turn{border-left:2px solid var(--line);padding-left:12px;margin:8px 0}
.axis,.lane{display:grid;grid-template-columns:230px 1fr 168px;gap:0 10px;align-items:center}
.lane{border-bottom:1px solid var(--line);min-height:38px}
.lane>div:first-child{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;font-size:13px}
.lane>div:last-child{font-size:12.5px;color:var(--dim);text-align:right;font-variant-numeric:tabular-nums;line-height:1.3}
.axis>div:nth-child(2){position:relative;height:18px;font-size:11.5px;color:var(--dim)}
.axis span{position:absolute;transform:translateX(-50%);white-space:nowrap}.axis span:first-child{transform:none}.axis span.pause{color:var(--bad)}
svg{display:block;width:100%;height:36px}
.span{fill:var(--soft)}.t-turn{fill:var(--turn)}.t-statement{fill:var(--stmt)}.t-tool{fill:var(--tool)}.t-failed{fill:var(--bad)}
.t-call{fill:var(--call)}.t-memo{fill:var(--memo)}.t-pause{fill:var(--bad);opacity:.35}.t-tick{fill:var(--line)}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:12.5px;color:var(--dim);margin:4px 0 10px}
.legend i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px;vertical-align:-1px}
.k-turn{background:var(--turn)}.k-statement{background:var(--stmt)}.k-tool{background:var(--tool)}.k-call{background:var(--call)}
.k-memo{background:var(--memo)}.k-failed{background:var(--bad)}
@media (max-width:760px){main{padding:16px 12px 60px}.axis,.lane{grid-template-columns:112px 1fr}.lane>div:last-child,.axis>div:last-child{display:none}}
@media print{:root{color-scheme:light;--bg:#fff;--soft:#f5f6f8;--line:#ccc;--ink:#000;--dim:#444;--turn:#3b6fd4;--stmt:#7d8798;--call:#d9822b;
--memo:#2f9e6e;--tool:#8a56c2;--bad:#b22;--bar:#cfe0fb;--good:#1f7d54}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}body{font-size:11px}main{max-width:none;padding:0}nav{display:none}
pre{max-height:none;overflow:visible}details::details-content{content-visibility:visible;height:auto}
h2,h3,summary{break-after:avoid}tr,.lane,.tiles div{break-inside:avoid}}
"""


def page(title: str, *children: Markup | None) -> Markup:
    """A whole file."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    body = tag("html", head, tag("body", tag("main", *children)), lang="en")
    return join([Markup("<!doctype html>\n"), body, Markup("\n")])
