// Service: the commands of the lab as data. A front end asks the questions and sends a command, also from another machine.
// The store applies the command's rule, a pure function of this room, to the stored row in one transaction, so that
// concurrent commands do not overwrite each other.

import type { LabTpu } from './tpus.ts';

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
