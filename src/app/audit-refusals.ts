// Audit refusals: the rows of refused and failed requests. A refused read has a row. A read that fails for another reason
// has none, and neither has a request that the user can still confirm.

import { ownNames, type Actor } from '../core/model/user.ts';
import { auditEntry, type AuditEntry, type AuditObject } from './audit.ts';
import type { Client, CommandResult, CreateAnswer } from './client.ts';
import { exitCode, JobmanError, StoreError } from './errors.ts';
import { resolve } from './refs.ts';
import type { ClientParts, RequestEnd, WhoAmI } from './store-client.ts';

type Parts = Pick<ClientParts, 'store' | 'access' | 'now' | 'isChange'>;

export async function recordRefusal(
  parts: Parts,
  whoAmI: WhoAmI,
  method: keyof Client,
  args: readonly unknown[],
  end: RequestEnd,
): Promise<void> {
  const object = (actor: Actor) => objectOf(parts, actor, method, args);
  await recordRequestEnd(parts, whoAmI, { route: method, operation: operationOf(method, args), object }, end);
}

/** Ignores errors of the database, because the request is refused anyway. */
export async function recordRequestEnd(
  parts: Omit<Parts, 'store'>,
  whoAmI: WhoAmI,
  request: {
    /** As for `isChange`. */
    readonly route: string;
    readonly operation: string;
    readonly object: (actor: Actor) => Promise<AuditObject | null> | AuditObject | null;
  },
  end: RequestEnd,
): Promise<void> {
  const refusal =
    'error' in end ? refusalOf(end.error, await parts.isChange(request.route)) : refusedAnswer(end.answer);
  if (refusal === null) return;
  try {
    const actor = await whoAmI();
    const object = await request.object(actor);
    await parts.access.record(auditEntry(actor, parts.now(), request.operation, object, refusal));
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
  }
}

type Refusal = Pick<AuditEntry, 'outcome' | 'detail'>;

function refusalOf(error: unknown, isChange: boolean): Refusal | null {
  if (!(error instanceof JobmanError) || error instanceof StoreError) return null;
  if (error.errorCode === 'forbidden') return { outcome: 'denied', detail: {} };
  if (error.reasons.includes('user_limit')) return { outcome: 'denied', detail: { reasons: error.reasons } };
  // A request with an invalid argument names no object.
  if (!isChange || error.code === exitCode.usage || error.code === exitCode.notFound) return null;
  return { outcome: 'failed', detail: { code: error.errorCode } };
}

function refusedAnswer(answer: unknown): Refusal | null {
  const { ok, refusedFor, mayActForOwner, confirmation } = answer as Partial<CommandResult & CreateAnswer>;
  if (mayActForOwner === true) return null;
  if (refusedFor !== undefined) return { outcome: 'denied', detail: {} };
  if (confirmation !== undefined && confirmation !== null) {
    const final = confirmation.reasons.filter(({ token }) => token === null).map(({ kind }) => kind);
    return final.length === 0 ? null : { outcome: 'denied', detail: { reasons: final } };
  }
  return ok === false ? { outcome: 'failed', detail: {} } : null;
}

const names: Partial<Record<keyof Client, string>> = { runStep: 'setup', workerTicket: 'workers' };

function operationOf(method: keyof Client, args: readonly unknown[]): string {
  if (method === 'sendCommand') return String(args[1]);
  if (method === 'checkLabCommand') return `tpu ${String(args[0])}`;
  return names[method] ?? method.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** The first argument of these methods is not a job. */
const withoutObject: ReadonlySet<keyof Client> = new Set<keyof Client>([
  'resolveName',
  'checkLabCommand',
  'checkLogin',
  'bucketStatuses',
]);

const clusterMethods: ReadonlySet<keyof Client> = new Set<keyof Client>([
  'recordClusterDeletion',
  'hideArchivedJob',
  'removeArchivedJob',
]);

async function objectOf(
  { store, now }: Parts,
  actor: Actor,
  method: keyof Client,
  args: readonly unknown[],
): Promise<AuditObject | null> {
  // The first argument of `changesSince` is a cursor.
  const [first] = method === 'changesSince' ? ((args[1] ?? []) as readonly unknown[]) : args;
  const id = typeof first === 'string' ? first : null;
  switch (method) {
    case 'setSecret':
    case 'deleteSecret':
      return id === null ? null : { kind: 'secret', id };
    case 'changeUser':
      return id === null ? null : { kind: 'user', id };
    case 'revokeToken':
      return id === null ? null : { kind: 'token', id };
    case 'forgetProject':
      return id === null ? null : { kind: 'project', id };
    case 'dropEvents':
    case 'testRecipient':
      return id === null ? null : { kind: 'recipient', id };
    case 'addUser':
      return { kind: 'user', id: String((first as { readonly name?: unknown }).name) };
    case 'releaseOrphan':
    case 'forgetOrphan':
      return { kind: 'tpu', id: String((first as { readonly resource?: unknown }).resource) };
    default:
  }
  if (id === null || withoutObject.has(method)) return null;
  if (clusterMethods.has(method)) return { kind: 'cluster_job', id };
  // Another job may get the name later, so the row has the id.
  const found = await resolve(store, id, ownNames(actor), now(), 'read').catch(() => null);
  return found === null ? null : { kind: 'job', id: found.job.id };
}
