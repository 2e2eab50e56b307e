import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { escapeLine } from '../../app/format.ts';
import type { Phase } from '../../core/decide/phase.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { printError, type Cli } from '../context.ts';
import { pause } from '../../app/concurrency.ts';
import { abortOnSignal } from '../interrupt.ts';

export interface PortMapping {
  readonly localPort: number;
  readonly remotePort: number;
}

/** The default address: a forwarded port is seldom meant for the whole network. */
const loopbackAddress = '127.0.0.1';

function formatReachability(address: string): string {
  // RFC 1122, 3.2.1.3; RFC 4291, 2.5.3.
  const isLoopback = address.startsWith('127.') || address === '::1';
  const who = isLoopback ? 'Only this machine can connect.' : `Everyone who can reach ${address} can connect.`;
  return `${who} Ctrl-C stops forwarding; the job keeps running.`;
}

export function parsePortMapping(text: string): PortMapping {
  const [, here, there = here] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(text) ?? [];
  const mapping = { localPort: Number(here), remotePort: Number(there) };
  if (here === undefined || mapping.localPort > 65_535 || mapping.remotePort > 65_535 || mapping.remotePort === 0) {
    throw usageError(`\`${text}\` is not a port: expected 6006, or 8080:6006 for port 8080 here and 6006 there.`);
  }
  return mapping;
}

function joinSockets(socket: Socket, tunnel: Duplex): void {
  tunnel.on('close', () => socket.destroy());
  socket.on('close', () => tunnel.destroy());
  if (socket.destroyed) tunnel.destroy();
  socket.pipe(tunnel).pipe(socket);
}

/** Throws JobmanError (conflict). */
async function listen(mapping: PortMapping, address: string, join: (socket: Socket) => void): Promise<Server> {
  // A side that has closed its output may still receive.
  const server = createServer({ allowHalfOpen: true }, join).listen(mapping.localPort, address);
  try {
    await once(server, 'listening');
    return server.on('error', () => undefined);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'EADDRINUSE' ? 'is taken by another program' : `cannot be opened: ${message}`;
    const other = mapping.localPort + 10_000 > 65_535 ? 0 : mapping.localPort + 10_000;
    throw new JobmanError(`Port ${mapping.localPort} on this machine ${why}.`, exitCode.conflict, [
      `With another port: jobman port-forward <job> ${other}:${mapping.remotePort}`,
    ]);
  }
}

/** A worker or a pod, which another one may replace meanwhile. */
export interface ForwardTarget {
  readonly name: string;
  /** Begins sentences: `Job 000007`, `train`. */
  readonly job: string;
  readonly facts: { readonly job: string; readonly worker: number | null; readonly pod: string | null };
  /** Resolves with the problem, as a sentence, if the target is not reached. */
  readonly connect: (port: number) => Promise<Duplex | string>;
  /** After `moved`, `connect` uses the new target. Throws JobmanError. */
  readonly check: () => Promise<TargetCheck>;
  readonly close: () => void;
}

type TargetCheck =
  | { readonly kind: 'same' }
  | { readonly kind: 'deleted' }
  | { readonly kind: 'moved'; readonly to: string }
  | { readonly kind: 'none'; readonly phase: Phase }
  | { readonly kind: 'finished'; readonly phase: Phase };

const checkInterval: Duration = 2 * second;

/** A broken tunnel costs one connection; the next one goes to the current target. */
export async function forwardPorts(
  cli: Cli,
  mappings: readonly PortMapping[],
  address = loopbackAddress,
  target: ForwardTarget,
): Promise<number> {
  const { name, facts, connect } = target;
  const host = address.includes(':') ? `[${address}]` : address;
  const sockets = new Set<Socket>();
  const servers: Server[] = [];
  const reported = new Set<string>();
  const { signal, release } = abortOnSignal(cli);

  /** A browser retries, so print each sentence once. */
  const reportOnce = (sentence: string): void => {
    if (!reported.has(sentence) && !signal.aborted) cli.printStderr(escapeLine(sentence));
    reported.add(sentence);
  };

  const closeConnections = (): void => {
    for (const socket of sockets) socket.destroy();
    reported.clear();
  };

  async function join(socket: Socket, remotePort: number): Promise<void> {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    const tunnel = await connect(remotePort);
    if (typeof tunnel === 'string') {
      socket.destroy();
      reportOnce(tunnel);
      return;
    }
    tunnel.on('error', (error) => {
      socket.destroy();
      reportOnce(`Port ${remotePort} of ${facts.job}: ${error.message}`);
    });
    tunnel.once('data', () => reported.clear());
    joinSockets(socket, tunnel);
  }

  try {
    for (const mapping of mappings) {
      const { remotePort } = mapping;
      const server = await listen(mapping, address, (socket) => void join(socket, remotePort));
      servers.push(server);
      // The system has chosen a port for 0.
      const { port } = server.address() as AddressInfo;
      if (cli.json) cli.printJson({ ...facts, localPort: port, remotePort });
      else cli.print(`http://${host}:${port} forwards to port ${remotePort} of ${name}`);
    }
    cli.note(formatReachability(address));
    return await waitUntilEnd(cli, target, signal, closeConnections);
  } finally {
    release();
    for (const server of servers) server.close();
    closeConnections();
    target.close();
  }
}

/** Until Ctrl-C (130), or until the job has finished and has nothing to connect to (1). */
async function waitUntilEnd(
  cli: Cli,
  { job, facts, check }: ForwardTarget,
  signal: AbortSignal,
  moved: () => void,
): Promise<number> {
  const noun = facts.pod === null ? 'machines' : 'running pod';
  let isThere = true;
  let isLost = false;
  while (!signal.aborted) {
    await pause(checkInterval, signal);
    try {
      const found = await check();
      if (isLost) cli.note('The cluster answers again.');
      isLost = false;
      if (found.kind === 'deleted' || found.kind === 'finished') {
        const what =
          found.kind === 'deleted'
            ? 'was deleted meanwhile'
            : `has finished (${found.phase}) and has no ${noun} any more`;
        return printError(cli, `${job} ${what}.`, exitCode.failed, { job: facts.job });
      }
      if (found.kind === 'same') continue;
      moved();
      if (found.kind === 'moved') cli.note(`${job} has moved: forwarding to ${found.to}.`);
      else if (isThere) cli.note(`${job} has no ${noun} now (${found.phase}); forwarding continues when it has.`);
      isThere = found.kind === 'moved';
    } catch (error) {
      if (!(error instanceof JobmanError) || error.code !== exitCode.unreachable) throw error;
      if (!isLost) cli.note(`${error.message} Still trying.`);
      isLost = true;
    }
  }
  return exitCode.interrupted;
}
