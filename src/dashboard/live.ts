// The stream of changes. A visible page has one, which all its parts share. It resumes after its cursor.

import { effect, signal } from '@preact/signals';
import { parseEvents } from '../api/events.ts';
import { fromProblem } from '../api/problem.ts';
import { routes } from '../api/routes.ts';
import { decodeEvent } from '../api/wire.ts';
import type { Change, Cursor } from '../app/client.ts';
import { pause as wait } from '../app/concurrency.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { minute, second, type Duration } from '../core/model/time.ts';
import { client, session } from './session.ts';

/**
 * `live`: changes arrive as they happen. `silent`: nothing has arrived, not even the heartbeat that the server sends every 15
 * seconds. `offline`: there is no connection; the page tries again. Times are those of `performance.now()`.
 */
export type LiveState =
  | { readonly kind: 'starting' }
  | { readonly kind: 'live' }
  | { readonly kind: 'silent'; readonly since: Duration }
  | { readonly kind: 'offline'; readonly since: Duration; readonly nextTryAt: Duration };

export const live = signal<LiveState>({ kind: 'starting' });

type Listener = (change: Change) => void;

const listeners = new Set<Listener>();
const restarts = new Set<() => void>();
const silentAfter: Duration = 20 * second;
const deadAfter: Duration = 40 * second;
const firstDelay: Duration = second / 2;
const maxDelay: Duration = 15 * second;
/** A stream that ends sooner counts as a failure. */
const minStreamTime: Duration = 5 * second;
/** After this time a hidden page closes its stream. */
const hiddenAfter: Duration = 10 * second;
/** After this time without a stream, reading everything again is less work than reading all changes. */
const maxGap: Duration = 10 * minute;

/** Over HTTP/1.1 a browser has six connections to a server for all of its pages, and each stream takes one. */
const isShown = signal(typeof document === 'undefined' || document.visibilityState === 'visible');

let cursor: Cursor | null = null;
/** The server's clock minus this browser's; 0 until it is known. */
let clockOffset: Duration = 0;
let lastSignAt = 0;
/** The same by the wall clock, which continues while the machine sleeps. */
let lastSignDate = 0;
let stream: AbortController | undefined;

/** Calls back with each change, until the returned function is called. `onRestart`: changes may be missing; read all again. */
export function onChange(listener: Listener, onRestart: () => void = () => undefined): () => void {
  listeners.add(listener);
  restarts.add(onRestart);
  return () => {
    listeners.delete(listener);
    restarts.delete(onRestart);
  };
}

/** Runs while there is a session and the page is visible. */
export function followChanges(): void {
  effect(() => {
    if (session.value.kind !== 'open' || !isShown.value) return;
    const over = new AbortController();
    void run(over.signal);
    return () => {
      over.abort();
      live.value = { kind: 'starting' };
    };
  });
  setInterval(watch, second);
  let hiding: ReturnType<typeof setTimeout> | undefined;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding);
    if (document.visibilityState === 'hidden') hiding = setTimeout(() => (isShown.value = false), hiddenAfter);
    // The connection of a tab that slept may be dead.
    else if (isShown.peek()) watch();
    else isShown.value = true;
  });
  window.addEventListener('online', () => retryNow());
}

/** Ends the pause before the next try. */
export let retryNow: () => void = () => undefined;

/** The server's time now, as far as it is known. */
export function serverNow(): number {
  return Date.now() + clockOffset;
}

async function run(over: AbortSignal): Promise<void> {
  for (let failures = 0; !over.aborted; failures += 1) {
    const began = performance.now();
    try {
      await read(over);
    } catch (error) {
      if (over.aborted) return;
      // For example after the database was restored.
      if (error instanceof JobmanError && error.code === exitCode.usage) restart();
    }
    // A proxy may end every stream at once.
    if (performance.now() - began > minStreamTime) failures = 0;
    if (!over.aborted) await pauseAfter(failures, over);
  }
}

async function pauseAfter(failures: number, over: AbortSignal): Promise<void> {
  const now = performance.now();
  const pause = Math.min(firstDelay * 2 ** failures, maxDelay);
  const state = live.peek();
  live.value = { kind: 'offline', since: 'since' in state ? state.since : now, nextTryAt: now + pause };
  const early = new AbortController();
  retryNow = () => early.abort();
  await wait(pause, AbortSignal.any([over, early.signal]));
}

async function read(over: AbortSignal): Promise<void> {
  const own = new AbortController();
  const leave = (): void => own.abort();
  over.addEventListener('abort', leave);
  stream = own;
  const late = setTimeout(leave, deadAfter);
  if (Date.now() - lastSignDate > maxGap) cursor = null;
  try {
    const { bytes, serverTime } = await client.open(routes.changesSince, [cursor, null], own.signal);
    clearTimeout(late);
    // The header has whole seconds.
    const offset = (serverTime ?? Date.now()) - Date.now();
    clockOffset = Math.abs(offset) < 2 * second ? 0 : offset;
    const isFirst = cursor === null;
    sign();
    // The first change brings the first cursor. The stream has no earlier changes, so the page reads everything now.
    if (isFirst) restart();
    for await (const { kind, data, id } of parseEvents(noting(bytes))) {
      const value = decodeEvent(data);
      if (kind === 'problem') throw fromProblem(value) ?? new Error('an unknown problem');
      if (kind !== 'message') return;
      cursor = id ?? cursor;
      for (const listener of listeners) listener(value as Change);
    }
  } finally {
    over.removeEventListener('abort', leave);
    clearTimeout(late);
    own.abort();
  }
}

function restart(): void {
  cursor = null;
  for (const one of restarts) one();
}

/** Any bytes prove that the connection works, even those of a heartbeat. */
async function* noting(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  for await (const chunk of bytes) {
    sign();
    yield chunk;
  }
}

function sign(): void {
  lastSignAt = performance.now();
  lastSignDate = Date.now();
  if (live.peek().kind !== 'live') live.value = { kind: 'live' };
}

function watch(): void {
  const { kind } = live.peek();
  if (kind !== 'live' && kind !== 'silent') return;
  // One clock may be set back, and the other may stop while the machine sleeps.
  const now = performance.now();
  const silence = Math.max(now - lastSignAt, Date.now() - lastSignDate);
  if (silence > silentAfter && kind === 'live') live.value = { kind: 'silent', since: now - silence };
  if (silence > deadAfter) stream?.abort();
}
