// Service: the commands of the lab as data. A front end asks the questions and sends a command, also from another machine.
// The store applies the command's rule, a pure function of this room, to the stored row in one transaction, so that
// concurrent commands do not overwrite each other.

import type { AuditEntry } from '../app/audit.ts';
import type { RunBooking } from '../app/lab-job.ts';
import type { UserName } from '../core/model/user.ts';
import type { Booking } from './bookings.ts';
import type { ImportedJob } from './imported-job.ts';
import type { LabTpu } from './tpus.ts';
import type { LabUser } from './users.ts';

export type UserChange =
  | { readonly kind: 'set'; readonly values: Partial<Pick<LabUser, 'session' | 'logins' | 'nextWindow'>> }
  /** `folder` is absolute. Error 2: no number of a directory. */
  | { readonly kind: 'set_directory'; readonly number: number; readonly folder: string }
  /** The folder itself stays on disk. Error 3: the number has no folder. */
  | { readonly kind: 'remove_directory'; readonly number: number }
  | { readonly kind: 'swap_directories'; readonly one: number; readonly other: number }
  /** Error 2: the setting does not exist, or the text is not a value of it. */
  | { readonly kind: 'set_setting'; readonly key: string; readonly text: string }
  /** Null: all settings. */
  | { readonly kind: 'reset_setting'; readonly key: string | null }
  | { readonly kind: 'set_config_alias'; readonly alias: string; readonly key: string }
  /** Error 3: the user has no such alias. */
  | { readonly kind: 'remove_config_alias'; readonly alias: string }
  /** The user has seen the news up to this event. */
  | { readonly kind: 'see_news'; readonly upTo: number }
  /** Adds the missing directories and aliases of an older program, and counts windows on from its number. */
  | { readonly kind: 'fill'; readonly from: Pick<LabUser, 'directories' | 'aliases' | 'nextWindow'> };

export interface UserCommands {
  /** Throws JobmanError: (3) for an absent user, (4) if another user has a value, or the error of the change. */
  changeUser(
    name: string,
    change: UserChange,
    /** For a change of logins. */
    audit?: AuditEntry,
  ): Promise<{ readonly before: LabUser; readonly after: LabUser }>;
}

export type TpuFacts = Partial<Omit<LabTpu, 'name'>>;

export type TpuChange =
  /** Registers the TPU, or changes facts of a registered one. A new TPU has the facts in its name. */
  | { readonly kind: 'register'; readonly facts: TpuFacts }
  /** The cloud has reported the zone. A registered TPU without a zone gets it. */
  | { readonly kind: 'observe_zone'; readonly zone: string }
  /** The TPU was requested with another pricing. Changes only a registered TPU. */
  | { readonly kind: 'set_pricing'; readonly pricing: LabTpu['pricing'] }
  /** Registers the TPU with these facts. Changes no registered TPU. */
  | { readonly kind: 'add'; readonly tpu: LabTpu };

export interface TpuCommands {
  /** `alias` becomes a name of the TPU too. Throws JobmanError (2) if the type of a new TPU is not known. */
  changeTpu(name: string, change: TpuChange, alias?: string): Promise<LabTpu | null>;
  /** Removes the TPU with its aliases, and its booking if that says that it is gone. */
  removeTpu(name: string): Promise<void>;
  /** Sets an alias, or removes it with null. */
  setTpuAlias(alias: string, name: string | null): Promise<void>;
}

export type BookingCommand =
  /** A job of the user begins. Error 4: neither the user nor `seenUser` has the booking now. */
  | ({ readonly kind: 'run' } & RunBooking)
  /** An attempt of the user's job begins or ends. Changes only a booking of that user. */
  | { readonly kind: 'begin_attempt' | 'end_attempt'; readonly user: string }
  /** A user whose job runs there keeps `running`. Error 4: the booking is no longer `seen`. */
  | ({ readonly kind: 'book'; readonly user: string; readonly scriptNote?: string } & OfUser)
  | ({ readonly kind: 'release' } & OfUser)
  /** The TPU was deleted, or exists again. */
  | { readonly kind: 'observe'; readonly exists: boolean };

/** `by` makes the change; a server enters the actor. */
interface OfUser {
  readonly seen?: SeenBooking | null;
  readonly by?: UserName;
}

/** The booking on which the user has decided; null: none. */
export type SeenBooking = Pick<Booking, 'status' | 'user' | 'note' | 'scriptNote'>;

/** One change of an import. */
export type LabChange =
  | { readonly kind: 'add_user'; readonly user: LabUser }
  | { readonly kind: 'change_user'; readonly name: string; readonly change: UserChange }
  | { readonly kind: 'change_tpu'; readonly name: string; readonly change: TpuChange }
  | { readonly kind: 'set_tpu_alias'; readonly alias: string; readonly name: string }
  | {
      readonly kind: 'add_job';
      readonly job: ImportedJob;
      /** The position of the change that adds the parent of the job. */
      readonly parent?: { readonly change: number; readonly startMode: 'resume' | 'rerun' };
    };
