// The admin door: what is there, and the verbs that change it. With it the guard against web pages, and how replies are written.

import type { Socket } from 'node:net';
import type { HttpBindings } from '@hono/node-server';
import type { Context, Hono } from 'hono';
import { EmulatorRefusal } from '../contract.ts';
import { badField } from '../wire/errors.ts';
import type { Data } from '../wire/messages.ts';
import { billOf } from '../world/bill.ts';
import { inForce } from '../world/temper.ts';
import { act, sayCondition, verbs } from '../world/verbs.ts';
import type { World } from '../world/world.ts';
import { neighbourOf, type Neighbour } from './neighbours.ts';

export interface AdminOptions {
  readonly world: World;
  /** The answer of `GET /emulator/info` besides the speed. */
  readonly info: () => Readonly<Record<string, unknown>>;
  /** Waits until the hosts are as the world wants them: a verb's answer means that it has happened. */
  readonly hostsSettled: () => Promise<void>;
  /** Told whenever somebody asks for a change: this cloud is wanted. */
  readonly wanted: () => void;
}

/** Adds `/emulator/…`. */
export function addAdmin(app: Hono<Bindings>, { world, info, hostsSettled, wanted }: AdminOptions): void {
  app.get('/emulator/info', (context) => context.json({ speed: world.speed, ...info() }));

  app.get('/emulator/state', (context) =>
    context.json({
      now: world.now(),
      nodes: world.nodes.values().map(({ workers, ...node }) => ({
        ...node,
        workers: workers.map(({ hostKey: _secret, ...worker }) => worker),
      })),
      queuedResources: world.queued.values(),
      operations: world.operations.values(),
      conditions: inForce(world).map((condition) => ({ ...condition, says: sayCondition(condition) })),
      agenda: world.agenda.values(),
      verbs: Object.fromEntries(Object.entries(verbs).map(([name, verb]) => [name, verb.about])),
    }),
  );

  app.post('/emulator/:verb', async (context) => {
    const body = await readBody(context);
    if (body !== undefined && (body === null || typeof body !== 'object' || Array.isArray(body))) {
      throw new EmulatorRefusal(400, 'The body must be a JSON object: {"target": …, options…}.');
    }
    const reply = world.change(() => act(world, context.req.param('verb'), (body ?? {}) as Data));
    wanted();
    world.log(reply.message);
    await hostsSettled();
    return context.json(reply);
  });

  app.get('/emulator/bill', (context) => context.json({ lines: billOf(world) }));
}

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

/** Refuses everybody but the user of that number and root. */
export function addGuards(app: Hono<Bindings>, uid: number): void {
  // A page of another site in the user's browser must not preempt nodes or add keys, and neither must a page that another user
  // serves on this machine: only the emulator's own origin is accepted,
  // and so are host names that only lead here by a trick of DNS.
  app.use(async (context, next) => {
    const origin = context.req.header('origin');
    const host = context.req.header('host') ?? '';
    if (!isLoopback(host) || (origin !== undefined && origin !== `http://${host}`)) {
      return context.json({ message: 'The emulator answers this machine only.' }, 403);
    }
    return next();
  });

  const neighbours = new WeakMap<Socket, Neighbour>();
  app.use(async (context, next) => {
    const { socket } = context.env.incoming;
    const neighbour = neighbours.get(socket) ?? neighbourOf(socket, uid);
    neighbours.set(socket, neighbour);
    if (neighbour === 'stranger') {
      return context.json({ message: 'The emulator answers the user who started it, and nobody else.' }, 403);
    }
    return next();
  });
}

function isLoopback(hostAndPort: string): boolean {
  const host = hostAndPort.replace(/:\d+$/, '');
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}
