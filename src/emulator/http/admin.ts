// The admin door: what is there, and the verbs that change it.

import type { Hono } from 'hono';
import { EmulatorRefusal } from '../contract.ts';
import type { Data } from '../wire/messages.ts';
import { billOf } from '../world/bill.ts';
import { inForce } from '../world/temper.ts';
import { act, sayCondition, verbs } from '../world/verbs.ts';
import type { World } from '../world/world.ts';
import { type Bindings, readBody } from './replies.ts';

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
