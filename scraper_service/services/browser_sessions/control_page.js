'use strict';
const picture = document.querySelector('img'), told = document.querySelector('p');
const at = new URL('control/socket' + location.search, location);
at.protocol = at.protocol.replace('http', 'ws');
const socket = new WebSocket(at);
socket.binaryType = 'blob';
let shown = '', moved = 0;
const send = (action, more) => {
  if (socket.readyState === 1) socket.send(JSON.stringify({ action, ...more }));
};
const place = (event) => {
  const box = picture.getBoundingClientRect(), part = (n) => Math.min(1, Math.max(0, n));
  return { x: part((event.clientX - box.left) / box.width), y: part((event.clientY - box.top) / box.height),
    button: ['left', 'middle', 'right'][Math.max(0, event.button)] || 'left' };
};
socket.onmessage = (event) => {
  if (typeof event.data === 'string') { told.textContent = JSON.parse(event.data).error; return; }
  URL.revokeObjectURL(shown);
  picture.src = shown = URL.createObjectURL(event.data);
};
socket.onclose = () => { told.textContent = 'The session has ended, or the connection is lost.'; };
for (const [name, action] of [['pointerdown', 'down'], ['pointerup', 'up'], ['pointermove', 'move']])
  picture.addEventListener(name, (event) => {
    if (action === 'move' && event.timeStamp - moved < 50) return;
    if (action === 'move') moved = event.timeStamp;
    if (action === 'down') { picture.focus({ preventScroll: true }); picture.setPointerCapture(event.pointerId); }
    send(action, place(event));
    event.preventDefault();
  });
picture.addEventListener('wheel', (event) => {
  const turn = (n) => Math.min(10000, Math.max(-10000, n));
  send('wheel', { ...place(event), dx: turn(event.deltaX), dy: turn(event.deltaY) });
  event.preventDefault();
}, { passive: false });
picture.addEventListener('contextmenu', (event) => event.preventDefault());
for (const name of ['keydown', 'keyup'])
  picture.addEventListener(name, (event) => {
    if (event.key === 'Escape' && event.shiftKey) { picture.blur(); return; }
    if (event.isComposing || event.key === 'Dead' || event.key === 'Unidentified') return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'v') return;
    send(name, { key: event.key });
    event.preventDefault();
  });
document.addEventListener('paste', (event) => {
  const text = event.clipboardData.getData('text').slice(0, 10000);
  if (document.activeElement === picture && text) { send('text', { text }); event.preventDefault(); }
});
