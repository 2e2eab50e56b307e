// Setting rows: every setting with its value in force and its source, for `jobman settings`.

import type { SettingRow } from '../app/client.ts';
import type { Services } from '../app/services.ts';
import { layeredSettings, settingKeys } from '../app/settings.ts';
import { settingAt, type SettingKey } from '../schema/settings.ts';
import { settingsLayers } from './settings-files.ts';

/** Throws JobmanError with every problem of the files. */
export async function readSettingRows(
  services: Pick<Services, 'io' | 'settings' | 'settingsFiles' | 'clusterSettings'>,
): Promise<readonly SettingRow[]> {
  const [{ clusterSettingKeys }, layers, inForce, ofClusters] = await Promise.all([
    import('../app/cluster/settings.ts'),
    settingsLayers(services.settingsFiles()),
    services.settings(),
    services.clusterSettings(),
  ]);
  const { sources } = await layeredSettings({ layers, env: services.io.env });
  return [
    ...rowsOf(settingKeys, inForce, sources),
    ...rowsOf(clusterSettingKeys, ofClusters.settings, ofClusters.sources),
  ];
}

function rowsOf(keys: readonly SettingKey[], inForce: unknown, sources: ReadonlyMap<string, string>): SettingRow[] {
  return keys.map((setting) => ({
    key: setting.key,
    value: settingAt(inForce, setting),
    source: sources.get(setting.key) ?? 'default',
  }));
}
