"""How the page looks: colours for light and dark, sizes for desks and phones, and one script."""

from __future__ import annotations

# Text and fine lines on `ground` and on `card` have a contrast of at least 4.5, shapes of at
# least 3, in both; a test computes it.
LIGHT = {
    "ground": "#f6f5f2",
    "card": "#ffffff",
    "ink": "#1d2227",
    "quiet": "#5b636c",
    "rule": "#dcdad4",
    "completed": "#1c6f8c",
    "expired": "#b5460f",
    "cancelled": "#6a6480",
    "pending": "#7a6a1c",
    "rejected": "#8c2f4b",
    "waiting": "#1c6f8c",
}
DARK = {
    "ground": "#14181b",
    "card": "#1c2125",
    "ink": "#e8eaec",
    "quiet": "#a3acb5",
    "rule": "#363d43",
    "completed": "#5fb7d6",
    "expired": "#f2935a",
    "cancelled": "#b3a9d6",
    "pending": "#d6c35f",
    "rejected": "#e58aa5",
    "waiting": "#5fb7d6",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


# `data-theme` is for whoever embeds the page in one with a switch of its own.
CSS = (
    f"""
:root{{color-scheme:light dark;{_variables(LIGHT)}}}
:root[data-theme=dark]{{{_variables(DARK)}}}
@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{{_variables(DARK)}}}}}
"""
    + """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
 font-variant-numeric:tabular-nums}
main{max-width:1120px;margin:0 auto;padding:40px 24px 64px}
header p{color:var(--quiet);margin:0}
.eyebrow{letter-spacing:.08em;text-transform:uppercase;font-size:13px;font-weight:600}
h1{font-size:30px;line-height:1.2;margin:6px 0 10px;font-weight:650;letter-spacing:-.01em;
 text-wrap:balance}
h2{font-size:22px;line-height:1.25;margin:0 0 4px;font-weight:650}
h3{font-size:16px;margin:0;font-weight:650;overflow-wrap:anywhere}
section{margin-top:44px}
.lead{color:var(--quiet);margin:0 0 16px;max-width:80ch;text-wrap:pretty}
.proportions{display:flex;gap:2px;height:18px;margin:26px 0 14px;border-radius:4px;overflow:hidden}
.proportions span{min-width:3px;background:var(--part)}
.completed{--part:var(--completed)}.expired{--part:var(--expired)}
.cancelled{--part:var(--cancelled)}.pending{--part:var(--pending)}
.rejected{--part:var(--rejected)}.waiting{--part:var(--waiting)}
.proportions .expired,.swatch.expired{background:repeating-linear-gradient(135deg,
 var(--part) 0 4px,color-mix(in srgb,var(--part) 45%,var(--card)) 4px 7px)}
.proportions .cancelled,.swatch.cancelled{background:repeating-linear-gradient(90deg,
 var(--part) 0 3px,color-mix(in srgb,var(--part) 40%,var(--card)) 3px 5px)}
.swatch{display:inline-block;width:14px;height:14px;border-radius:3px;background:var(--part);
 vertical-align:-1px;margin-right:8px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:12px}
.card,.tile{background:var(--card);border:1px solid var(--rule);border-radius:10px}
.tile{padding:14px 16px}
.tile .what{font-weight:600}
.tile .many{font-size:28px;line-height:1.25;font-weight:650;letter-spacing:-.01em}
.tile .many small{font-size:16px;font-weight:500;color:var(--quiet);margin-left:6px;
 letter-spacing:0;white-space:nowrap}
.tile .more{color:var(--quiet);font-size:14px}
.card{padding:16px}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(310px,1fr));gap:12px;
 margin-top:12px}
.cards .card{display:flex;flex-direction:column}
.whole{grid-column:span 2}
.cards .head{display:flex;justify-content:space-between;align-items:baseline;gap:12px}
.cards .said{margin:6px 0 10px;font-size:14px;flex:1}
td small,th small,dd small{display:block;font-size:13px;font-weight:400;color:var(--quiet)}
.advice{margin-bottom:12px}
.advice th .verdict{display:inline-block;margin-top:2px}
.whatif{display:none}
.js .whatif{display:block}
.whatif label{font-weight:600}
.whatif input{font:inherit;color:inherit;background:var(--ground);border:1px solid var(--quiet);
 border-radius:6px;padding:4px 8px;margin-left:4px;max-width:100%}
.whatif #whatif-help{color:var(--quiet);font-size:14px;margin-left:10px}
.whatif .scroll{margin-top:10px}
.verdict{white-space:nowrap;font-size:14px;font-weight:600}
.verdict.tight{color:var(--expired)}.verdict.long{color:var(--pending)}
.verdict.fits{color:var(--completed)}.verdict.unknown,.verdict.mixed{color:var(--quiet)}
figure{margin:0}
figure+figure{margin-top:20px}
figcaption{font-weight:600;margin-bottom:6px}
figcaption span{font-weight:400;color:var(--quiet)}
svg{display:block;width:100%;height:auto;overflow:visible}
svg[data-read]{touch-action:pan-y}
svg:focus-visible{outline:2px solid var(--completed);outline-offset:4px;border-radius:4px}
svg.narrow{display:none}
.read{min-height:1.5em;font-size:14px;color:var(--quiet);margin:0;display:none}
.js .read{display:block}
.tick{font-size:12px;fill:var(--quiet)}
.name{font-size:13px;font-weight:600;fill:var(--ink)}
.grid{stroke:var(--rule)}
.axis{stroke:var(--quiet)}
.fill{fill:var(--part)}
.curve{fill:none;stroke:var(--part);stroke-width:2;stroke-linejoin:round}
.area{fill:var(--part);opacity:.14}
.before{--part:var(--quiet);stroke-dasharray:6 3}
.bound{fill:none;stroke:var(--part);stroke-width:1;stroke-dasharray:2 3}
.unknown{fill:var(--quiet);opacity:.12}
.present{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:5 3}
.mark{stroke:var(--ink);stroke-width:2}
.hollow{fill:var(--card)}.solid{fill:var(--ink)}
.guide{stroke:var(--ink);stroke-opacity:.55}
.legend{display:grid;grid-template-columns:auto 1fr auto;gap:2px 8px;margin:8px 0 0;font-size:14px}
.legend dt{display:contents}
.legend dd{margin:0;text-align:right;font-weight:600}
.legend svg{width:16px;height:16px;align-self:center}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:15px}
th,td{text-align:right;padding:7px 10px;border-bottom:1px solid var(--rule);vertical-align:baseline;
 white-space:nowrap}
tbody tr:last-child>*{border-bottom:0}
th{font-weight:600}
thead th{color:var(--quiet);font-size:13px;vertical-align:bottom;white-space:normal}
th:first-child,td:first-child,.left{text-align:left}
th:first-child,td:first-child{padding-left:0}
th:last-child,td:last-child{padding-right:0}
tbody th,.wrap{white-space:normal;overflow-wrap:anywhere;min-width:7.5em}
.meter{width:26%;min-width:80px}
.meter div{height:10px;border-radius:2px;background:var(--completed);min-width:2px}
details{margin-top:12px}
summary{cursor:pointer;font-weight:600;padding:4px 0}
.notes{color:var(--ink);max-width:80ch;padding-left:20px;margin:8px 0}
.notes li{margin:6px 0}
footer{margin-top:48px;padding-top:16px;border-top:1px solid var(--rule);color:var(--quiet);
 font-size:14px}
@media(max-width:700px){
main{padding:24px 14px 48px}
h1{font-size:26px}
section{margin-top:36px}
svg.wide{display:none}
svg.narrow{display:block}
.card{padding:14px 12px}
.cards{grid-template-columns:1fr}
.whole{grid-column:auto}
.tiles{grid-template-columns:1fr 1fr}
.tile{padding:12px}
.tile .many{font-size:22px}
.tile .many small{display:block;margin:0}
.meter{display:none}
th,td{padding:7px 8px}
.whatif td{white-space:normal}
.whatif #whatif-help{display:block;margin:4px 0 0}
}
@media print{body{background:#fff}.card,.tile{break-inside:avoid}.js .read{display:none}}
"""
)

# Reading values off a chart, with a pointer, a finger or the arrow keys. Everything that it tells
# is also in a table, so the page does without it.
SCRIPT = r"""
document.documentElement.classList.add('js');
for(const svg of document.querySelectorAll('svg[data-read]')){
 const points=JSON.parse(svg.dataset.read),figure=svg.closest('figure');
 const out=figure.querySelector('.read');
 const idle=out.textContent,box=svg.viewBox.baseVal;
 let guide=null,at=-1;
 const show=n=>{
  at=n;
  if(!guide){guide=document.createElementNS(svg.namespaceURI,'line');
   guide.setAttribute('class','guide');guide.setAttribute('y1',4);
   guide.setAttribute('y2',box.height-30);svg.append(guide)}
  guide.setAttribute('x1',points[n][0]);guide.setAttribute('x2',points[n][0]);
  out.textContent=points[n][1]};
 const hide=()=>{at=-1;if(guide){guide.remove();guide=null}out.textContent=idle};
 const read=event=>{
  const sides=svg.getBoundingClientRect(),x=(event.clientX-sides.left)*box.width/sides.width;
  let best=0;
  points.forEach((point,n)=>{if(Math.abs(point[0]-x)<Math.abs(points[best][0]-x))best=n});
  show(best)};
 svg.addEventListener('pointerdown',read);
 svg.addEventListener('pointermove',read);
 // A finger that is lifted leaves; what it has read stays, until another chart is touched.
 svg.addEventListener('pointerleave',event=>{if(event.pointerType!=='touch')hide()});
 document.addEventListener('pointerdown',event=>{if(!figure.contains(event.target))hide()});
 svg.addEventListener('blur',hide);
 svg.addEventListener('keydown',event=>{
  const step={ArrowLeft:-1,ArrowRight:1}[event.key];
  if(!step)return;
  event.preventDefault();
  show(Math.min(points.length-1,Math.max(0,at<0?(step>0?0:points.length-1):at+step)))});
}
const whatIf=document.querySelector('.whatif');
if(whatIf){
 const field=whatIf.querySelector('input'),rows=[...whatIf.querySelectorAll('tbody tr')];
 const units={ms:1,s:1e3,sec:1e3,m:6e4,min:6e4,h:36e5,d:864e5};
 const length=text=>{
  const given=text.toLowerCase().replace(/[\s\u00a0]+/g,'').replace(/,/g,'');
  const parts=[...given.matchAll(/(\d+(?:\.\d+)?)([a-z]+)/g)];
  if(!parts.length||parts.map(part=>part[0]).join('')!==given)return null;
  return parts.reduce((sum,part)=>sum+part[1]*(units[part[2]]??NaN),0)};
 const percent=part=>part===0?'0 %':part===1?'100 %':
  part<1e-5?'< 0.001 %':(100*part).toFixed(part>=.01&&part<.99?1:part>=.001?2:3)+' %';
 const about=number=>Math.round(number).toLocaleString('en-US');
 const points=rows.map(row=>row.dataset.points.split(';').map(each=>each.split(',').map(Number)));
 const show=()=>{
  const ms=length(field.value),bad=ms===null||Number.isNaN(ms);
  field.setAttribute('aria-invalid',bad);
  rows.forEach((row,n)=>{
   const [,expire,late]=row.cells,mine=points[n],watched=+row.dataset.watched;
   late.textContent='';
   if(bad)expire.textContent='type a number and ms, s, min, h or d';
   else if(ms>mine.at(-1)[0])expire.textContent='not known: longer than the data can tell';
   else{
    const [,all,lost]=mine.findLast(each=>each[0]<=ms)??[0,1e6,1e6];
    expire.textContent=`${percent(all/1e6)}, about ${about(all/1e6*watched)} of ${about(watched)}`;
    late.textContent=`about ${about(lost/1e6*row.dataset.ever*watched)}, `+
     `${percent(lost/1e6)} of those that get it`}})};
 field.addEventListener('input',show);
 show();
}
"""
