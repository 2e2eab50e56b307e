/**
 * The front end: one HTTP server for Google's API, the part of the Compute API that gcloud asks for, and the admin door.
 * The temper that sits between a client and the service (lost replies, 503s, expired credentials) is applied here.
 */
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { type Context, Hono } from 'hono';
import { EmulatorRefusal } from '../contract.ts';
import { CloudError, texts } from '../wire/errors.ts';
import type { ApiVersion } from '../wire/messages.ts';
import { projectNumber } from '../world/node-requests.ts';
import { isFlaky, replyDelay, standing, useUp } from '../world/temper.ts';
import type { World } from '../world/world.ts';
import { addAdmin, addGuards, json, readBody, type AdminOptions, type Bindings } from './admin.ts';
import { addCompute } from './compute.ts';
import type { Storage } from './storage/storage.ts';
import { understand, type Understood } from './tpu/understand.ts';

/** Written into the context of a request whose reply shall be lost: the connection is cut instead of answered. */
const lost = 'emulator-lost';

export interface FrontOptions extends AdminOptions {
  readonly storage: Storage;
  /** The user whom it serves, besides root. */
  readonly uid: number;
}

/** The whole front end, in the order in which its parts are asked. */
export function createFront(options: FrontOptions): Hono<Bindings> {
  const { world, storage, uid, wanted } = options;
  const app = new Hono<Bindings>();
  addGuards(app, uid);
  addAdmin(app, options);
  addCompute(app, world);
  addTpu(app, world, wanted);

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

function addTpu(app: Hono<Bindings>, world: World, wanted: () => void): void {
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
}

/** Everything between the client and the service: credentials, the project's rights, and faults. */
function refuseByTemper(world: World, call: Understood): void {
  for (const condition of standing(world, 'permission')) {
    const refusal = refusalOf(condition.target, call);
    if (refusal === undefined) continue;
    world.change(() => useUp(world, condition));
    throw refusal;
  }
  if (isFlaky(world, (target) => target === call.zone || isAboutCall(target, call))) throw texts.unavailable();
}

function refusalOf(target: string, { project, zone, permission, resource }: Understood): CloudError | undefined {
  switch (target) {
    case 'login':
      return texts.unauthenticated();
    case 'api':
      return texts.apiDisabled(project, projectNumber(project));
    case zone:
      return texts.zoneForbidden(project, target);
    case permission:
      return texts.rightMissing(permission, resource);
    default:
      return undefined;
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

/** The segments of a path, decoded; undefined for one that no client writes, such as `/%/nodes`. */
function decodePath(pathname: string): string[] | undefined {
  try {
    return pathname.split('/').slice(1).map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

/** Google's front end answers an unknown path with a page for people. */
function notFoundPage(context: Context<Bindings>): Response {
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
