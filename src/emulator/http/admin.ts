import type { Socket } from 'node:net';
import type { HttpBindings } from '@hono/node-server';
import type { Context, Hono } from 'hono';
import { EmulatorError } from '../contract.ts';
import { invalidField } from '../wire/errors.ts';
import type { Data } from '../wire/messages.ts';
import { billOf } from '../world/bill.ts';
import { activeConditions } from '../world/faults.ts';
import { runVerb, formatCondition, verbs } from '../world/verbs.ts';
import type { World } from '../world/world.ts';
import { checkPeer, type PeerAccess } from './peer-access.ts';

export interface AdminOptions {
  readonly world: World;
  /** The reply of `GET /emulator/info`, except for the speed. */
  readonly info: () => Readonly<Record<string, unknown>>;
  /** Resolves when the hosts match the world, so that the reply to a verb comes after its effect. */
  readonly waitForHosts: () => Promise<void>;
  /** Called at each request for a change; it resets the idle time. */
  readonly onActivity: () => void;
}

export function addAdminRoutes(app: Hono<Bindings>, { world, info, waitForHosts, onActivity }: AdminOptions): void {
  app.get('/emulator/info', (context) => context.json({ speed: world.speed, ...info() }));

  app.get('/emulator/state', (context) => {
    const state = {
      now: world.now(),
      nodes: world.nodes.values().map(({ workers, ...node }) => ({
        ...node,
        workers: workers.map(({ hostKey: _secret, ...worker }) => worker),
      })),
      queuedResources: world.queued.values(),
      operations: world.operations.values(),
      conditions: activeConditions(world).map((condition) => ({ ...condition, message: formatCondition(condition) })),
      events: world.events.values(),
      verbs: Object.fromEntries(Object.entries(verbs).map(([name, verb]) => [name, verb.description])),
    };
    return context.body(JSON.stringify(state, timesAsText), 200, { 'content-type': 'application/json' });
  });

  app.post('/emulator/:verb', async (context) => {
    const body = await readBody(context);
    if (body !== undefined && (body === null || typeof body !== 'object' || Array.isArray(body))) {
      throw new EmulatorError(400, 'The body must be a JSON object: {"target": …, options…}.');
    }
    const reply = world.change(() => runVerb(world, context.req.param('verb'), (body ?? {}) as Data));
    onActivity();
    world.log(reply.message);
    await waitForHosts();
    return context.json(reply);
  });

  app.get('/emulator/bill', (context) => context.json({ lines: billOf(world) }));
}

/** Keys of the records that hold times. A duration must not have such a name. */
const timeKey = /^(?:now|at|from|to|since|until|validAfter|validUntil|\w+(?:At|Time))$/;

function timesAsText(key: string, value: unknown): unknown {
  return typeof value === 'number' && timeKey.test(key) ? new Date(value).toISOString() : value;
}

export type Bindings = { Bindings: HttpBindings };

/** The body as JSON; undefined when empty. Throws CloudError for any other text. */
export async function readBody(context: Context<Bindings>): Promise<unknown> {
  const text = await context.req.text();
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw invalidField('', `Invalid JSON payload received. ${error instanceof Error ? error.message : ''}`);
  }
}

export function json(status: number, body: object, indent = 2): Response {
  return new Response(JSON.stringify(body, null, indent), {
    status,
    headers: { 'content-type': 'application/json; charset=UTF-8' },
  });
}

export function addGuards(app: Hono<Bindings>, uid: number): void {
  // A web page in the user's browser must not preempt nodes or add keys, even if another user of this machine serves
  // it. So only the emulator's own origin is accepted, and only loopback host names, against DNS rebinding.
  app.use(async (context, next) => {
    const origin = context.req.header('origin');
    const host = context.req.header('host') ?? '';
    if (!isLoopback(host) || (origin !== undefined && origin !== `http://${host}`)) {
      return context.json({ message: 'The emulator accepts connections from this machine only.' }, 403);
    }
    return next();
  });

  const accessBySocket = new WeakMap<Socket, PeerAccess>();
  app.use(async (context, next) => {
    const { socket } = context.env.incoming;
    const access = accessBySocket.get(socket) ?? checkPeer(socket, uid);
    accessBySocket.set(socket, access);
    if (access === 'denied') {
      return context.json({ message: 'The emulator serves only the user who started it.' }, 403);
    }
    return next();
  });
}

function isLoopback(hostAndPort: string): boolean {
  const host = hostAndPort.replace(/:\d+$/, '');
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}
