// The shape of a method of Storage: from a call to an answer.

import type { Buckets } from '../../world/buckets.ts';
import type { Finder } from './find.ts';
import type { Objects } from './objects.ts';
import type { Answer, StorageCall } from './requests.ts';
import type { Uploads } from './uploads.ts';

export interface Stores {
  readonly buckets: Buckets;
  readonly objects: Objects;
  readonly finder: Finder;
  readonly uploads: Uploads;
  readonly log: (line: string) => void;
}

/** Answers a call. Throws StorageError. */
export type Method = (stores: Stores, call: StorageCall) => Promise<Answer> | Answer;
