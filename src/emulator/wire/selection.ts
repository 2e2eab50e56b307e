/**
 * `fields=nodes(name,state),nextPageToken`: the part of a reply that a client wants. Every Google method takes it; the
 * notation is that of Google's page "Partial response": names joined by commas, `a/b` or `a.b` for what is inside, `a(b,c)`
 * for several of one, `*` for all.
 */
import { camelCase } from './decode.ts';
import { badField, type CloudError } from './errors.ts';
import type { Data } from './messages.ts';

/** The wanted part of a message; null wants all that is below. */
type Wanted = Map<string, Wanted | null>;

/** Leaves of a reply only what `fields` names. Throws CloudError when it is not written as it should be. */
export function select(reply: Data, fields: string): Data {
  return keep(reply, readFields(fields)) as Data;
}

function keep(value: unknown, wanted: Wanted | null | undefined): unknown {
  if (wanted === null || wanted === undefined) return value;
  if (Array.isArray(value)) return value.map((item) => keep(item, wanted));
  if (value === null || typeof value !== 'object') return value;
  const all = wanted.get('*');
  const kept: Data = {};
  for (const [name, inner] of Object.entries(value)) {
    if (wanted.has(name)) kept[name] = keep(inner, wanted.get(name));
    else if (all !== undefined) kept[name] = keep(inner, all);
  }
  return kept;
}

function readFields(text: string): Wanted {
  const words = text.match(/[A-Za-z0-9_@*-]+|[^\sA-Za-z0-9_@*-]/g) ?? [];
  let at = 0;
  const list = (): Wanted => {
    const wanted: Wanted = new Map();
    for (;;) {
      let inside = wanted;
      for (;;) {
        const word = words[at];
        if (word === undefined || !/^[A-Za-z0-9_@*-]+$/.test(word)) throw badFields(text);
        at += 1;
        const name = camelCase(word);
        const known = inside.get(name);
        const sign = words[at];
        if (sign === '/' || sign === '.') {
          at += 1;
          const next: Wanted = known ?? new Map();
          // A part that is wanted as a whole stays so, whatever else is said of its parts.
          if (known !== null) inside.set(name, next);
          inside = next;
          continue;
        }
        if (sign === '(') {
          at += 1;
          const next = list();
          if (words[at] !== ')') throw badFields(text);
          at += 1;
          if (known !== null) inside.set(name, new Map([...(known ?? []), ...next]));
        } else {
          inside.set(name, null);
        }
        break;
      }
      if (words[at] !== ',') return wanted;
      at += 1;
    }
  };
  const wanted = list();
  if (at < words.length) throw badFields(text);
  return wanted;
}

function badFields(text: string): CloudError {
  return badField('fields', `Invalid field selection ${text}`);
}
