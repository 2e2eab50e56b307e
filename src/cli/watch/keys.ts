// Keys with names, from the bytes that a terminal sends.

/** A character that a key types, or the name of a key that types none. */
export type Key = string;

/** Keys that send a sequence (xterm's ctlseqs, with and without application mode), and control characters that act. */
const named: readonly (readonly [sequence: string, key: Key])[] = [
  ['\u001b[A', 'up'],
  ['\u001bOA', 'up'],
  ['\u001b[B', 'down'],
  ['\u001bOB', 'down'],
  ['\u001b[5~', 'page up'],
  ['\u001b[6~', 'page down'],
  ['\u001b[H', 'first'],
  ['\u001bOH', 'first'],
  ['\u001b[F', 'last'],
  ['\u001bOF', 'last'],
  ['\r', 'enter'],
  ['\n', 'enter'],
  ['\u0003', 'interrupt'],
  ['\u0004', 'leave'],
];

const escape = '\u001b';

/** In the order in which they were pressed. A sequence that is not known is passed over as a whole. */
export function keysOf(typed: string): readonly Key[] {
  // So the terminal tells that the program rested and was brought back (Input.keys).
  if (typed === '') return ['resumed'];
  const keys: Key[] = [];
  for (let at = 0; at < typed.length;) {
    const rest = typed.slice(at);
    const found = named.find(([sequence]) => rest.startsWith(sequence));
    const unknown = rest.startsWith(escape) ? /^.(?:\[[0-9;?]*[ -/]*[@-~]|O.)/.exec(rest)?.[0] : undefined;
    if (found !== undefined) keys.push(found[1]);
    else if (unknown === undefined) keys.push(rest[0] === escape ? 'escape' : (rest[0] ?? ''));
    at += (found?.[0] ?? unknown ?? ' ').length;
  }
  return keys;
}
