// Worker streams: WebSockets to the programs and ports of workers and pods. Each connection needs the permission of a
// ticket, and adds a row to the audit log with the worker or the pod, and the port.

import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Context, Hono } from 'hono';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { decodeSegment } from '../api/wire.ts';
import { maxDataBytes, serveStream, type ProgramRequest, type StreamOutput } from '../api/worker-stream.ts';
import type { Client } from '../app/client.ts';
import { exitCode, JobmanError, messageOf, usageError } from '../app/errors.ts';
import type { ClusterAccess } from '../app/cluster/cluster-client.ts';
import {
  deferSession,
  requireWorker,
  type Session,
  type SessionRequest,
  type TerminalSize,
  type WorkerConnection,
} from '../app/worker-access.ts';
import type { AppParts, Env } from './app.ts';
import { defaultLimits } from './limits.ts';

/** The sockets of requests for a WebSocket, until a route accepts them. */
const upgrades = new WeakMap<IncomingMessage, { readonly socket: Duplex; readonly head: Buffer }>();

/** Handles a request for a WebSocket like any other request, until its route accepts the upgrade. */
export function offerUpgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): void {
  upgrades.set(incoming, { socket, head });
}

const workerPath = '/v1/jobs/{ref}/workers/{worker}/stream';
const podPath = '/v1/clusters/{context}/namespaces/{namespace}/pods/{pod}/stream';

/** A worker, or a container of a pod. `attach` connects to the main program of a container. */
interface StreamTarget extends Pick<WorkerConnection, 'start' | 'tunnel'> {
  attach?(request: Pick<SessionRequest, 'onBytes'> & { readonly terminal: TerminalSize | null }): Session;
}

/** The first message may contain a large script as an argument of a command. */
const maxMessageBytes = 4 * maxDataBytes;

interface OpenStreams {
  /** Counts the stream until the returned function is called. Throws JobmanError above the limit. */
  admit(context: Context<Env>): () => void;
  /** Calls `leave` with the reason when the stream must end, until the returned function is called. */
  keepOpen(context: Context<Env>, path: string, leave: (reason: string) => void): () => void;
}

export function mountWorkerStreams(app: Hono<Env>, parts: AppParts, open: OpenStreams): void {
  const { headersTimeout } = parts.limits ?? defaultLimits;
  const sockets = new WebSocketServer({ noServer: true, maxPayload: maxMessageBytes });
  /** `find` checks the permission before the upgrade. */
  async function answer(
    context: Context<Env>,
    path: string,
    find: () => Promise<(port: number | null) => Promise<StreamTarget>>,
  ): Promise<Response> {
    const { incoming, outgoing } = context.env;
    const upgrade = upgrades.get(incoming);
    if (upgrade === undefined) throw usageError('This path is for a WebSocket: docs/api.md describes it.');
    const connect = await find();
    incoming.socket.once('close', open.admit(context));
    (outgoing as ServerResponse).detachSocket(incoming.socket);
    sockets.handleUpgrade(incoming, upgrade.socket, upgrade.head, (socket) => {
      incoming.socket.setKeepAlive(true, keepAliveMs);
      const leave = serveStream(socket, (opening, output) => {
        clearTimeout(tooLate);
        return startStream(connect, opening, output);
      });
      // A stream counts for the limits of its user, so it does not wait without end for its first message.
      const tooLate = setTimeout(() => leave('the first message has not arrived in time'), headersTimeout);
      const ping = setInterval(() => socket.bufferedAmount === 0 && socket.ping(), keepAliveMs);
      const release = open.keepOpen(context, path, leave);
      socket.once('close', () => {
        clearInterval(ping);
        clearTimeout(tooLate);
        release();
      });
    });
    return RESPONSE_ALREADY_SENT;
  }
  const at = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ':$1');
  app.get(at(workerPath), async (context) =>
    answer(context, workerPath, async () => {
      const client = await parts.clientOf(context.get('actor'));
      const { job, worker } = await findWorker(client, context);
      return async (port) => {
        await client.workerTicket(job, { use: { worker, ...(port !== null && { port }) } });
        return parts.connectWorker(job, worker);
      };
    }),
  );
  app.get(at(podPath), async (context) =>
    answer(context, podPath, async () => findPod(await parts.clustersOf(context.get('actor')), context)),
  );
}

/** Throws JobmanError if the user may not use that pod. */
async function findPod(
  clusters: ClusterAccess,
  { req }: Context<Env>,
): Promise<(port: number | null) => Promise<StreamTarget>> {
  const [context, namespace, pod] = ['context', 'namespace', 'pod'].map((name) => decodeSegment(req.param(name) ?? ''));
  const target = { pod: pod ?? '', container: req.query('container') ?? '' };
  const open = await clusters.openPod(context ?? '', namespace ?? '', target.pod);
  return async (wanted) => {
    const access = await open(wanted);
    return {
      start: ({ terminal = null, ...request }) => access.exec(target, { ...request, terminal }),
      attach: (request) => access.attach(target, request),
      tunnel: (port) => access.tunnel(target.pod, port),
    };
  };
}

const keepAliveMs = 30_000;

interface FoundWorker {
  /** Its id. */
  readonly job: string;
  readonly worker: number;
}

/** Throws JobmanError without permission, or if the job has no such worker now. */
async function findWorker(client: Client, { req }: Context<Env>): Promise<FoundWorker> {
  const [worker, wanted] = [Number(req.param('worker')), req.query('allocation')];
  if (!Number.isSafeInteger(worker) || worker < 0)
    throw usageError(`The worker must be a number, and not ${JSON.stringify(req.param('worker'))}.`);
  const { job, workers, allocation } = await client.workerTicket(decodeSegment(req.param('ref') ?? ''));
  requireWorker(job, worker, workers);
  if (wanted !== undefined && wanted !== String(allocation)) throw movedError(job);
  return { job, worker };
}

function movedError(job: string): JobmanError {
  return new JobmanError(`Job ${job} has moved to other workers.`, exitCode.unreachable);
}

type Opening =
  | ({ readonly kind: 'program' } & ProgramRequest)
  | { readonly kind: 'attach'; readonly terminal?: TerminalSize | null }
  | { readonly kind: 'port'; readonly port: number };

/** A failure ends the session. */
function startStream(
  connect: (port: number | null) => Promise<StreamTarget>,
  text: string,
  output: Required<StreamOutput>,
): Session {
  async function start(): Promise<Session> {
    const opening = readOpening(text);
    const connection = await connect(opening.kind === 'port' ? opening.port : null);
    const { onBytes } = output;
    if (opening.kind === 'port') return connectPort(connection, opening.port, output);
    if (opening.kind === 'attach') {
      if (connection.attach === undefined) throw usageError('A worker has no program to attach to.');
      return connection.attach({ terminal: opening.terminal ?? null, onBytes });
    }
    const { program, environment, hasInput, terminal = null } = opening;
    return connection.start({ program, environment, hasInput, terminal, onBytes });
  }
  return deferSession(start());
}

/** Throws JobmanError (2). */
function readOpening(text: string): Opening {
  try {
    const opening = JSON.parse(text) as Partial<Record<string, unknown>>;
    if (isOpening(opening)) return opening;
  } catch (error) {
    throw usageError(`The first message is not JSON: ${messageOf(error)}.`);
  }
  throw usageError('The first message must be a program, `attach` or a port, as docs/api.md says.');
}

function isOpening(value: Partial<Record<string, unknown>>): value is Opening & Record<string, unknown> {
  const { kind, port, program, environment, hasInput, terminal } = value;
  const isCount = (count: unknown): boolean =>
    Number.isSafeInteger(count) && Number(count) > 0 && Number(count) < 65_536;
  if (kind === 'port') return isCount(port);
  const { kind: form, line, argv } = (program ?? {}) as Partial<Record<string, unknown>>;
  const isProgram =
    form === 'line'
      ? typeof line === 'string'
      : form === 'argv' && Array.isArray(argv) && argv.length > 0 && argv.every((one) => typeof one === 'string');
  const { columns, rows } = (terminal ?? { columns: 1, rows: 1 }) as Partial<Record<string, unknown>>;
  const hasSize = isCount(columns) && isCount(rows);
  if (kind === 'attach') return hasSize;
  const isEnvironment = environment === 'host' || environment === 'container';
  return kind === 'program' && isProgram && isEnvironment && typeof hasInput === 'boolean' && hasSize;
}

/** A connection to a port, as a session: its input is the bytes to the port. */
async function connectPort(
  connection: StreamTarget,
  port: number,
  { onBytes, onConnected, onOutputEnd }: Required<StreamOutput>,
): Promise<Session> {
  const tunnel = await connection.tunnel(port);
  if ('problem' in tunnel) {
    const end = { kind: 'unreachable', reason: tunnel.problem, mayHaveRun: tunnel.isReached } as const;
    return { ...closedSession, ended: Promise.resolve(end) };
  }
  onConnected();
  let taking: Promise<void> = Promise.resolve();
  let problem: string | undefined;
  tunnel.on('data', (chunk: Buffer) => {
    tunnel.pause();
    taking = taking.then(() => onBytes(chunk, 'stdout')).finally(() => tunnel.resume());
  });
  tunnel.on('end', () => void taking.then(onOutputEnd));
  tunnel.on('error', (error) => (problem = error.message));
  const closed = new Promise<void>((resolve) => tunnel.once('close', resolve));
  return {
    write: (bytes) => Promise.race([closed, new Promise<void>((resolve) => tunnel.write(bytes, () => resolve()))]),
    end: () => void tunnel.end(),
    resize: () => undefined,
    stop: () => void tunnel.destroy(),
    ended: closed
      .then(() => taking)
      .then(() =>
        problem === undefined
          ? { kind: 'ended', exitCode: 0, signal: null }
          : { kind: 'unreachable', reason: problem, mayHaveRun: true },
      ),
  };
}

const closedSession: Omit<Session, 'ended'> = {
  write: () => Promise.resolve(),
  end: () => undefined,
  resize: () => undefined,
  stop: () => undefined,
};
