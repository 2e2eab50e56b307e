/**
 * The front end: one HTTP server for Google's API, the part of the Compute API that gcloud asks for, and the admin door.
 * The temper that sits between a client and the service (lost replies, 503s, expired credentials) is applied here.
 */
import type { Socket } from 'node:net';
import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { type Context, Hono } from 'hono';
import { EmulatorRefusal } from '../contract.ts';
import { badField, CloudError, texts } from '../wire/errors.ts';
import type { ApiVersion, Data } from '../wire/messages.ts';
import { billOf } from '../world/bill.ts';
import { projectNumber } from '../world/nodes.ts';
import { inForce, replyDelay, standing, useUp } from '../world/temper.ts';
import { act, sayCondition, verbs } from '../world/verbs.ts';
import type { World } from '../world/world.ts';
import { computeOperation, computeProject, setProjectMetadata } from './compute.ts';
import { type Neighbour, neighbourOf } from './neighbours.ts';
import type { Storage } from './storage.ts';
import { understand, type Understood } from './tpu.ts';

type Bindings = { Bindings: HttpBindings };
type FrontContext = Context<Bindings>;

/** Written into the context of a request whose reply shall be lost: the connection is cut instead of answered. */
const lost = 'emulator-lost';

export interface FrontOptions {
  readonly world: World;
  readonly storage: Storage;
  /** The user whom it serves, besides root. */
  readonly uid: number;
  /** What `GET /emulator/info` says besides the speed. */
  readonly info: () => Readonly<Record<string, unknown>>;
  /** Waits until the hosts are as the world wants them: a verb's answer means that it has happened. */
  readonly hostsSettled: () => Promise<void>;
  /** Told whenever somebody asks for a change: this cloud is wanted. */
  readonly wanted: () => void;
}

export function createFront({ world, storage, uid, info, hostsSettled, wanted }: FrontOptions): Hono<Bindings> {
  const app = new Hono<Bindings>();

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

  app.get('/compute/v1/projects/:project', (context) => json(200, computeProject(world, context.req.param('project'))));

  app.post('/compute/v1/projects/:project/setCommonInstanceMetadata', async (context) => {
    const body = await readBody(context);
    const project = context.req.param('project');
    return json(
      200,
      world.change(() => setProjectMetadata(world, project, body)),
    );
  });

  app.get('/compute/v1/projects/:project/global/operations/:operation', (context) =>
    json(200, computeOperation(context.req.param('project'), context.req.param('operation'))),
  );
  app.post('/compute/v1/projects/:project/global/operations/:operation/wait', (context) =>
    json(200, computeOperation(context.req.param('project'), context.req.param('operation'))),
  );

  app.all('/:version{v1|v2|v2alpha1}/*', async (context) => {
    const body = await readBody(context);
    const { pathname, search } = new URL(context.req.url);
    const path = decodePath(pathname);
    if (path === undefined) return badRequestPage();
    const understood = understand({
      version: path[0] as ApiVersion,
      method: context.req.method,
      path: path.slice(1),
      query: Object.fromEntries(new URLSearchParams(search)),
      body,
    });
    if (understood === undefined) return notFoundPage(context);
    const delay = replyDelay(world, { zone: understood.zone });
    if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
    refuseByTemper(world, understood);
    if (understood.changes) wanted();
    const reply = understood.changes ? world.change(() => understood.answer(world)) : understood.answer(world);
    if (loseReply(world, understood)) {
      context.env.outgoing.destroy();
      return new Response(null, { headers: { 'x-hono-already-sent': lost } });
    }
    const isCompact = new URLSearchParams(search).get('prettyPrint') === 'false';
    return json(200, reply, isCompact ? 0 : 2);
  });

  // Storage has its own paths, and by plain path those of all buckets; so it is asked after everybody else. Its bodies may
  // be large, and go past the framework.
  app.all('*', async (context) => {
    const { incoming, outgoing } = context.env;
    if (!(await storage(incoming, outgoing))) return notFoundPage(context);
    if (incoming.method !== 'GET' && incoming.method !== 'HEAD') wanted();
    return RESPONSE_ALREADY_SENT;
  });

  app.onError((error, context) => {
    if (error instanceof CloudError) {
      const isAdmin = new URL(context.req.url).pathname.startsWith('/emulator/');
      return json(error.httpStatus, isAdmin ? { message: error.message } : error.body());
    }
    if (error instanceof EmulatorRefusal) return json(error.status, { message: error.message });
    world.log(`mistake of the emulator: ${error.stack ?? error.message}`);
    return json(500, { ...texts.internal().body(), message: error.message });
  });

  return app;
}

/** What stands between the client and the service: credentials, the project's rights, and bad weather. */
function refuseByTemper(world: World, call: Understood): void {
  for (const condition of standing(world, 'permission')) {
    const strike = (): void => world.change(() => useUp(world, condition));
    if (condition.target === 'login') {
      strike();
      throw texts.unauthenticated();
    }
    if (condition.target === 'api') {
      strike();
      throw texts.apiDisabled(call.project, projectNumber(call.project));
    }
    if (condition.target === call.zone) {
      strike();
      throw texts.zoneForbidden(call.project, call.zone);
    }
    if (condition.target === call.permission) {
      strike();
      throw texts.rightMissing(call.permission, call.resource);
    }
  }
  const flaky = standing(world, 'flaky').find(({ target }) => target === call.zone || isAboutCall(target, call));
  if (flaky !== undefined && world.chance.next() < Number(flaky.options['p'] ?? 0.5)) {
    world.change(() => useUp(world, flaky));
    throw texts.unavailable();
  }
}

/** `drop`: the act is done and committed, the client never hears of it. */
function loseReply(world: World, call: Understood): boolean {
  // Without a target it means a reply that hurts: that of an act.
  const drop = standing(world, 'drop').find((condition) =>
    condition.target === '*' ? call.changes : isAboutCall(condition.target, call),
  );
  if (drop === undefined) return false;
  world.change(() => useUp(world, drop));
  world.log(`the reply to ${call.verb} ${call.resource} is lost`);
  return true;
}

function isAboutCall(target: string, call: Understood): boolean {
  if (target === '*' || target === call.verb) return true;
  return target === (call.changes ? 'change' : 'read');
}

async function readBody(context: FrontContext): Promise<unknown> {
  const text = await context.req.text();
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw badField('', `Invalid JSON payload received. ${error instanceof Error ? error.message : ''}`);
  }
}

/** The segments of a path, decoded; undefined for one that no client writes, such as `/%/nodes`. */
function decodePath(pathname: string): string[] | undefined {
  try {
    return pathname.split('/').slice(1).map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

function json(status: number, body: object, indent = 2): Response {
  return new Response(JSON.stringify(body, null, indent), {
    status,
    headers: { 'content-type': 'application/json; charset=UTF-8' },
  });
}

/** Google's front end answers an unknown path with a page for people. */
function notFoundPage(context: FrontContext): Response {
  const path = new URL(context.req.url).pathname.replace(/[<>&"]/g, '');
  return new Response(
    `<!DOCTYPE html><html lang=en><title>Error 404 (Not Found)</title><p><b>404.</b> That is an error.` +
      `<p>The requested URL <code>${path}</code> was not found on this server.\n`,
    { status: 404, headers: { 'content-type': 'text/html; charset=UTF-8' } },
  );
}

function badRequestPage(): Response {
  return new Response(
    '<!DOCTYPE html><html lang=en><title>Error 400 (Bad Request)</title><p><b>400.</b> That is an error.' +
      '<p>Your client has issued a malformed or illegal request.\n',
    { status: 400, headers: { 'content-type': 'text/html; charset=UTF-8' } },
  );
}

function isLoopback(hostAndPort: string): boolean {
  const host = hostAndPort.replace(/:\d+$/, '');
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}
