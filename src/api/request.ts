// Requests: the arguments of an operation as a path, parameters and a body.

import { withNext, type Rows } from '../app/pages.ts';
import type { Blob } from '../app/ports.ts';
import type { Route } from './routes.ts';
import { encodeBlobs, encodeParameter, encodeSegment } from './wire.ts';

/** The arguments of an operation, in the order of its parameters. */
export type Values = readonly unknown[];

/** Parameters that replace those of the values. */
export type More = Readonly<Record<string, string>>;

/** `path` includes the query. `body` is undefined if no argument is in the body. */
export function encodeArguments(route: Route, values: Values, more: More) {
  let { path } = route;
  const query = new URLSearchParams();
  const add = (name: string, value: unknown): void => {
    for (const text of encodeParameter(value)) query.append(name, text);
  };
  let body: string | Uint8Array | undefined;
  let members: Record<string, unknown> | undefined;
  route.arguments.forEach(([carrier, name], at) => {
    const value = values[at];
    if (carrier === 'path') path = path.replace(`{${name}}`, () => encodeSegment(String(value)));
    else if (carrier === 'query') add(name, value);
    else if (carrier === 'fields') for (const [field, one] of Object.entries(value ?? {})) add(field, one);
    else if (carrier === 'body') body = JSON.stringify(value);
    else if (carrier === 'bytes') body = value as Uint8Array;
    else if (carrier === 'blobs') body = encodeBlobs(value as readonly Blob[]);
    else members = { ...members, [name]: value };
  });
  if (members !== undefined) body = JSON.stringify(members);
  for (const [name, text] of Object.entries(more)) query.set(name, text);
  const type =
    typeof body === 'string' ? 'application/json' : body === undefined ? undefined : 'application/octet-stream';
  return { path: query.size === 0 ? path : `${path}?${query.toString()}`, query, body, type };
}

/** Reads all rows, or as many as the limit allows, page by page. The result has the cursor of the next page, if there is one. */
export async function readRows(
  readPage: (more: More) => Promise<unknown>,
  route: Route,
  values: Values,
): Promise<Rows<unknown>> {
  const rows: unknown[] = [];
  const wanted = encodeArguments(route, values, {}).query.get('limit');
  let page: { readonly rows: readonly unknown[]; readonly next?: string };
  let more: More = {};
  do {
    page = (await readPage(more)) as typeof page;
    rows.push(...page.rows);
    const limit = wanted === null ? {} : { limit: String(Number(wanted) - rows.length) };
    more = { ...limit, cursor: page.next ?? '' };
  } while (page.next !== undefined && more['limit'] !== '0');
  return withNext(rows, page.next);
}
