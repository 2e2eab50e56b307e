// Surroundings: what a manifest is read against. All of it is handed in, so that parsing stays a function.

import type { FileDoor } from './door.ts';

export interface Surroundings {
  /** The manifest's own folder, absolute: where its relative paths start. */
  readonly folder: string;
  /** The user's home folder. */
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly door: FileDoor;
  /** The project of the settings, for manifests that name none. */
  readonly project: string | null;
  /** For `create`, a file that is missing here is a problem; a `check` (an import of a job that ran elsewhere) only warns. */
  readonly purpose: 'create' | 'check';
}
