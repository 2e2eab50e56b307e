// People: who shares the lab's TPUs, where their code is, what they call things, and how they like their screens.

import type { Instant } from '../core/time.ts';
import type { UserSettings } from './user-settings.ts';

/** A user of the registry. Jobs of `tpu` are owned by one of them, whoever typed the command. */
export interface LabUser {
  /** Unique, and no word that a command line could read as something else (names.ts). Any letters of any language. */
  readonly name: string;
  /** A number for life, the lowest that was free; `id=3` names the user on a command line. */
  readonly id: number;
  /** The tmux session that this user's windows are in; unique. */
  readonly session: string;
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
