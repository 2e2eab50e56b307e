// The rules that `tpu run` may be told, by name. What each does is a preset of src/core/recover.ts.

import type { PresetName } from '../../core/recover.ts';

/** In the order in which `check-rules` shows them. */
export const presets = ['pre', 'pass', 'reapply', 'rerun', 'resume'] as const satisfies readonly PresetName[];
