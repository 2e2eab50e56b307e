// Reads parts of logs. Requests of the same time for the logs of one job are one request, because each costs the browser
// milliseconds, and a server limits their number.

import type { LogPart, LogPartRequest, LogRef } from '../../app/client.ts';
import type { ReadPart } from '../../app/find-line.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { client } from '../session.ts';
import type { FindInLogs, FoundPosition } from './pane-state.ts';

interface Waiting {
  readonly request: LogPartRequest;
  readonly resolve: (part: LogPart) => void;
  readonly reject: (error: unknown) => void;
}

/** Of one request; a part has at most 1 MiB. */
const maxParts = 64;

/** A reader of the logs of this job. */
export function createLogReader(job: string): (ref: LogRef) => ReadPart {
  let waiting: Waiting[] = [];

  async function send(parts: readonly Waiting[]): Promise<void> {
    const [first] = parts;
    let done = 0;
    try {
      if (first !== undefined && parts.length === 1) {
        const { id, from, maxBytes } = first.request;
        first.resolve(await client.readLog(job, id, from, maxBytes));
        return;
      }
      for await (const part of client.readLogs(
        job,
        parts.map(({ request }) => request),
      )) {
        parts[done]?.resolve(part);
        done += 1;
      }
    } catch (error) {
      const [failed, ...others] = parts.slice(done);
      failed?.reject(error);
      // A log whose file was removed says nothing about the others.
      if (error instanceof JobmanError && error.code === exitCode.notFound && others.length > 0) return send(others);
      for (const { reject } of others) reject(error);
    }
  }

  return ({ id }) =>
    (from, maxBytes) =>
      new Promise((resolve, reject) => {
        if (waiting.length === 0)
          setTimeout(() => {
            const all = waiting;
            waiting = [];
            for (let at = 0; at < all.length; at += maxParts) void send(all.slice(at, at + maxParts));
          });
        waiting.push({ request: { id, from, maxBytes }, resolve, reject });
      });
}

/** Searches on the server, which need not send the logs. */
export function createLogSearch(job: string, refs: readonly LogRef[]): FindInLogs {
  return async (text, { from, signal, onProgress, ...rest }) => {
    const logs = refs.map(({ id }, log) => ({ id, from: from[log] ?? 0 }));
    const found: FoundPosition[] = [];
    for await (const step of client.searchLogs(job, { text, logs, ...rest })) {
      signal.throwIfAborted();
      if (step.kind === 'read') onProgress(step.bytes, step.of);
      else if (step.line !== null) {
        const { id, offset, time } = step.line;
        found.push({ log: refs.findIndex((ref) => ref.id === id), offset, time });
      }
    }
    return found;
  };
}
