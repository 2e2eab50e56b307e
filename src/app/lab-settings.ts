// Settings of a lab that shares its TPUs, the section `lab`. What they mean is in src/lab/site.ts.

import { minute } from '../core/time.ts';
import { zoneMeant, zones as knownZones } from '../catalogue/zones.ts';
import {
  addressOrNull,
  isFilled,
  listOf,
  orNull,
  record,
  textLike,
  textOrNull,
  textOrNullLike,
  textsLike,
  whole,
} from '../schema/kinds.ts';
import { setting, settingsOf, type SettingsOf } from '../schema/settings.ts';

/** A word that no shell and no command line reads as something else. */
const isPlain = (text: string): boolean => /^[^\s'"\\`$;|&<>*?]+$/u.test(text);

/** Google adds zones, so an unknown one may be right where it could be one. */
const isZone = (text: string): boolean => /^[a-z]+-[a-z]+\d+-[a-z]$/.test(text);

/** The zone that was most likely meant by the first of a list that is none. */
function zoneSlip(value: unknown): string | undefined {
  const wrong: unknown = Array.isArray(value) ? value.find((one) => typeof one !== 'string' || !isZone(one)) : value;
  const meant = typeof wrong === 'string' ? zoneMeant(wrong) : undefined;
  return meant !== undefined && knownZones.includes(meant) ? meant : undefined;
}

const share = record(
  'a share',
  '{ "source": "10.0.0.2:/home", "target": "/home-nfs" }',
  {
    source: textLike('an NFS export like "10.0.0.2:/home"', (text) => isPlain(text) && /^[^:]+:\/.*$/.test(text)),
    target: textLike('an absolute path like "/home-nfs"', (text) => isPlain(text) && /^\/[^/]/.test(text)),
  },
  {
    zones: textsLike('a list of zones, perhaps with a star: ["europe-*"]', (text) => /^[a-z\d*-]+$/.test(text)),
    options: textLike('options of mount(8) like "vers=3,hard"', (text) => isPlain(text) && !text.startsWith('-')),
  },
);

const spreadsheet = record(
  'a spreadsheet',
  '{ "id": "...", "credentials": "..." }',
  {
    id: textLike('the id of a spreadsheet, which stands in its address behind /d/', (text) => /^[\w-]+$/.test(text)),
    credentials: textLike('the path of a service account’s key', isFilled),
  },
  { tab: textOrNullLike('the name of a tab, or null', isFilled), endpoint: addressOrNull },
);

/** Paths may begin with `~/` or be relative to `$JOBMAN_HOME`. */
export const labTable = {
  zones: setting(
    textsLike('a list of zones like ["us-central2-b"]', isZone, zoneSlip),
    [],
    'The zones in which the lab has TPUs.',
  ),
  shares: setting(listOf('a list of shares', share), [], 'The NFS shares that its TPUs mount, in order.'),
  condaEnvironment: setting(textOrNull, null, 'The conda environment that its scripts use.'),
  python: setting(textOrNull, null, 'The Python on the workers that `tpu check-env` runs, an absolute path.'),
  wandbKeyFile: setting(
    textOrNull,
    null,
    'A file that holds the key for Weights & Biases; the key itself is in no setting.',
    { variable: 'JOBMAN_WANDB_KEY_FILE' },
  ),
  remoteUser: setting(textOrNull, null, 'The login on the workers; none: your own login name.'),
  privateKey: setting(
    textOrNull,
    null,
    "The private key that opens it; none: jobman's own, then those of your ssh_config, of gcloud and of your SSH agent.",
  ),
  namePrefix: setting(
    textLike('a text', () => true),
    '',
    'What all names of its TPUs begin with, and is not shown.',
  ),
  stageLimit: setting(whole('a whole number from 1 on', 1), 10, 'How often the rules resume a job of `tpu run`.'),
  hangGraceMs: setting(
    whole('a number of milliseconds from 0 on', 0),
    5 * minute,
    'A job of `tpu run` whose log ends in a failed call between workers is ended after this long without output.',
  ),
  spreadsheet: setting(
    orNull('a spreadsheet like { "id": "...", "credentials": "..." }, or null', spreadsheet, null),
    null,
    'The Google spreadsheet of bookings; none: a table here.',
  ),
};

export type LabSettings = SettingsOf<typeof labTable>;

export const defaultLabSettings: LabSettings = settingsOf(labTable, new Map());
