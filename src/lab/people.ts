// People: who shares the lab's TPUs, where their code is, what they call things, and how they like their screens.

import type { Instant } from '../core/time.ts';

/** A user of the registry. Jobs of `tpu` are owned by one of them, whoever typed the command. */
export interface LabUser {
  /** Unique, and no word that a command line could read as something else (names.ts). Any letters of any language. */
  readonly name: string;
  /** A number for life, the lowest that was free; `id=3` names the user on a command line. */
  readonly id: number;
  /** The tmux session that this user's windows are in; unique. */
  readonly session: string;
  /** What the booking sheet calls this user. */
  readonly sheetName: string;
  /** Login names of this machine that are this user's; none where people share one login. */
  readonly logins: readonly string[];
  /** Working directories by their number, 1 to 100; 1 is the one that `run` takes unless told otherwise. Absolute. */
  readonly directories: Readonly<Record<number, string>>;
  /** Words of one's own for keys of a config: `lr` for `config.training.learning_rate`. */
  readonly aliases: Readonly<Record<string, string>>;
  readonly settings: UserSettings;
  /** The number that the next window gets, unless it is taken. From 1. */
  readonly nextWindow: number;
  readonly createdAt: Instant;
  /** The newest event that `tpu news` has told to this user: its number in the record; 0 before the first. */
  readonly newsSeen: number;
}

/** All documented settings of a user. What an older program wrote and nobody here knows is kept in `extra_settings`. */
export interface UserSettings {
  /** Whether `run` goes on as `monitor`. */
  readonly monitor_after_run: boolean;
  /** Seconds between two looks of the monitor. */
  readonly monitor_upd_time: number;
  /** How many characters at the end of a log tell the phase. */
  readonly monitor_length: number;
  readonly monitor_dir: boolean;
  readonly monitor_tpu: boolean;
  /** Whether the last lines are shown also where the status is known. */
  readonly monitor_verbose: boolean;
  /** How many characters of output are shown. */
  readonly show_length: number;
  /** `local` (this machine's), `us` (UTC-4), `cn` (UTC+8), or a name of the IANA time zone database. */
  readonly time_zone: string;
  /** The columns of `check` and `monitor` in their order, by letter; empty: as the other settings say. */
  readonly monitor_columns: string;
  readonly extra_settings: Readonly<Record<string, unknown>>;
}

/** What a new user begins with. */
export const defaultUserSettings: UserSettings = {
  monitor_after_run: true,
  monitor_upd_time: 5,
  monitor_length: 800,
  monitor_dir: true,
  monitor_tpu: true,
  monitor_verbose: false,
  show_length: 200,
  time_zone: 'local',
  monitor_columns: '',
  extra_settings: {},
};

/** The config aliases that a new user begins with. */
export const defaultAliases: Readonly<Record<string, string>> = {
  lr: 'config.training.learning_rate',
  bs: 'config.training.batch_size',
  ep: 'config.training.num_epochs',
  wd: 'config.training.weight_decay',
  b1: 'config.training.adam_b1',
  b2: 'config.training.adam_b2',
  ckpt: 'config.training.checkpoint_per_epoch',
};
