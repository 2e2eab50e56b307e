// Requests to a Google REST API, as the adapters of its services see them.

import type { CloudError } from '../core/model/job.ts';

/**
 * `status`: the canonical name (`NOT_FOUND`), `NOT_SENT` (no effect is possible) or `NO_ANSWER` (it may have had one).
 */
export type Answer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly status: string; readonly error: CloudError };

export interface Listing<T> {
  readonly items: readonly T[];
  readonly unreachable: readonly string[];
}

/** A service whose answers may be bytes. */
export interface BytesApi {
  /** Never rejects. */
  bytes(method: 'GET' | 'DELETE', path: string, headers?: Readonly<Record<string, string>>): Promise<Answer<Buffer>>;
}

/** One API with its login. The path is below the server's address, already encoded, with its query. */
export interface GoogleApi {
  /** Rejects only with the reason of an aborted signal. */
  call<T extends object>(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: object | Uint8Array,
    signal?: AbortSignal,
  ): Promise<Answer<T>>;
  /** All pages of a list, because a partial list would report resources on later pages as absent. */
  list<T>(path: string, field: string): Promise<Answer<Listing<T>>>;
}
