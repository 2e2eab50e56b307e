/** One HTTP server for Google's APIs and the admin API. It applies the faults between a client and the service. */
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { type Context, Hono } from 'hono';
import { EmulatorError } from '../contract.ts';
import { CloudError, cloudErrors } from '../wire/errors.ts';
import type { ApiVersion } from '../wire/messages.ts';
import { projectNumber } from '../world/node-requests.ts';
import { isFlaky, replyDelay, conditionsOf, countUse } from '../world/faults.ts';
import type { World } from '../world/world.ts';
import { addAdminRoutes, addGuards, json, readBody, type AdminOptions, type Bindings } from './admin.ts';
import { addComputeRoutes } from './compute.ts';
import { parsePermissionsCall } from './permissions.ts';
import { parseQuotaCall } from './quotas.ts';
import type { Storage } from './storage/storage.ts';
import { parseCall, type ParsedCall } from './tpu/parse-call.ts';

/** The header value for a reply that is not sent, because the connection is cut. */
const droppedReply = 'emulator-lost';

export interface FrontEndOptions extends AdminOptions {
  readonly storage: Storage;
  readonly uid: number;
}

/** The order of the parts matters: the first match answers. */
export function createFrontEnd(options: FrontEndOptions): Hono<Bindings> {
  const { world, storage, uid, onActivity } = options;
  const app = new Hono<Bindings>();
  addGuards(app, uid);
  addAdminRoutes(app, options);
  addComputeRoutes(app, world);
  addTpuRoutes(app, world, onActivity);

  // Last, because plain paths of Storage match any two segments; outside the framework, because bodies may be large.
  app.all('*', async (context) => {
    const { incoming, outgoing } = context.env;
    if (!(await storage(incoming, outgoing))) return notFoundPage(context);
    if (incoming.method !== 'GET' && incoming.method !== 'HEAD') onActivity();
    return RESPONSE_ALREADY_SENT;
  });

  app.onError((error, context) => {
    if (error instanceof CloudError) {
      const isAdmin = new URL(context.req.url).pathname.startsWith('/emulator/');
      return json(error.httpStatus, isAdmin ? { message: error.message } : error.body());
    }
    if (error instanceof EmulatorError) return json(error.status, { message: error.message });
    world.log(`the emulator has a bug: ${error.stack ?? error.message}`);
    return json(500, { ...cloudErrors.internal().body(), message: error.message });
  });

  return app;
}

function addTpuRoutes(app: Hono<Bindings>, world: World, onActivity: () => void): void {
  app.all('/:version{v1|v2|v2alpha1}/*', async (context) => {
    const body = await readBody(context);
    const { pathname, search } = new URL(context.req.url);
    const path = decodePath(pathname);
    if (path === undefined) return badRequestPage();
    const call =
      parseQuotaCall(context.req.method, path) ??
      parsePermissionsCall(context.req.method, path, body) ??
      parseCall({
        version: path[0] as ApiVersion,
        method: context.req.method,
        path: path.slice(1),
        query: Object.fromEntries(new URLSearchParams(search)),
        body,
      });
    if (call === undefined) return notFoundPage(context);
    const delay = replyDelay(world, { zone: call.zone });
    if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
    applyFaults(world, call);
    if (call.changes) onActivity();
    const reply = call.changes ? world.change(() => call.answer(world)) : call.answer(world);
    if (dropReply(world, call)) {
      context.env.outgoing.destroy();
      return new Response(null, { headers: { 'x-hono-already-sent': droppedReply } });
    }
    const isCompact = new URLSearchParams(search).get('prettyPrint') === 'false';
    return json(200, reply, isCompact ? 0 : 2);
  });
}

function applyFaults(world: World, call: ParsedCall): void {
  for (const condition of conditionsOf(world, 'permission')) {
    const refusal = permissionError(condition.target, call);
    if (refusal === undefined) continue;
    world.change(() => countUse(world, condition));
    throw refusal;
  }
  if (isFlaky(world, (target) => target === call.zone || isAboutCall(target, call))) throw cloudErrors.unavailable();
}

function permissionError(target: string, { project, zone, permission, resource }: ParsedCall): CloudError | undefined {
  switch (target) {
    case 'login':
      return cloudErrors.unauthenticated();
    case 'api':
      return cloudErrors.apiDisabled(project, projectNumber(project));
    case zone:
      return cloudErrors.zoneForbidden(project, target);
    case permission:
      return cloudErrors.permissionDenied(permission, resource);
    default:
      return undefined;
  }
}

/** `drop`: the change is committed, but the client gets no reply. */
function dropReply(world: World, call: ParsedCall): boolean {
  // Without a target, only replies to changes are lost.
  const drop = conditionsOf(world, 'drop').find((condition) =>
    condition.target === '*' ? call.changes : isAboutCall(condition.target, call),
  );
  if (drop === undefined) return false;
  world.change(() => countUse(world, drop));
  world.log(`the reply to ${call.verb} ${call.resource} is lost`);
  return true;
}

function isAboutCall(target: string, call: ParsedCall): boolean {
  if (target === '*' || target === call.verb) return true;
  return target === (call.changes ? 'change' : 'read');
}

/** Undefined for an invalid path such as `/%/nodes`. */
function decodePath(pathname: string): string[] | undefined {
  try {
    return pathname.split('/').slice(1).map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

/** Google's front end answers an unknown path with an HTML page. */
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
