// Bodies of requests and replies, as JSON.

import type { HttpBindings } from '@hono/node-server';
import type { Context } from 'hono';
import { badField } from '../wire/errors.ts';

export type Bindings = { Bindings: HttpBindings };

/** The body as JSON; undefined for an empty one. Throws CloudError for any other text. */
export async function readBody(context: Context<Bindings>): Promise<unknown> {
  const text = await context.req.text();
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw badField('', `Invalid JSON payload received. ${error instanceof Error ? error.message : ''}`);
  }
}

/** A reply in JSON, in lines as Google's front end writes it unless `indent` is 0. */
export function json(status: number, body: object, indent = 2): Response {
  return new Response(JSON.stringify(body, null, indent), {
    status,
    headers: { 'content-type': 'application/json; charset=UTF-8' },
  });
}
