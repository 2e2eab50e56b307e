// Lab: all that the `tpu` command may ask for beside jobs. `wiring/lab.ts` builds it; each part is loaded when it is asked for.

import type { Services } from '../app/services.ts';
import type { LabHome } from './lab-home.ts';
import type { LabRecord } from './record.ts';
import type { Site } from './site.ts';
import type { BookingSheet } from './tpus.ts';
import type { TpuDesk } from './tpu-desk.ts';
import type { WindowHost } from './window-host.ts';

export interface Lab {
  readonly record: LabRecord;
  /** The facts of this site. Throws JobmanError with every problem of the settings. */
  site(): Promise<Site>;
  sheet(): Promise<BookingSheet>;
  /**
   * The operations on the TPUs themselves. `note` is called when a cloud had to be started for that; `owner` is the person
   * whose name a new TPU gets, by default the login. To be closed after use.
   */
  tpus(note?: (line: string) => void, owner?: string): Promise<TpuDesk>;
  /** tmux where it is installed, else what stands in for it. */
  windows(): Promise<WindowHost>;
  /** Has the controller look at those jobs now, and starts one where none runs. Resolves with what to tell the user, if anything. */
  lookNow(jobs: readonly string[]): Promise<string | null>;
  /** Throws the StoreError of a copied home whose original is still there: what a copy does to TPUs is done to the original's. */
  expectOriginal(): Promise<void>;
  /** Closes the record. What else was asked for is closed by whoever asked for it. */
  close(): Promise<void>;
}

/** What the `tpu` command is given: the services of every command, and the lab. */
export interface LabServices extends Services {
  /** Opens nothing yet. */
  lab(): Promise<Lab>;
  /** The folder that all of it is in, for the group of logins that shares it. */
  labHome(): Promise<LabHome>;
}
