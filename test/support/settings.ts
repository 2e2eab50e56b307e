/** Settings as the program loads them from the files of a test. */
import { loadClusterSettings as loadCluster } from '../../src/app/cluster/settings.ts';
import { loadSettings as load, type SettingsFiles } from '../../src/app/settings.ts';
import { settingsLayers } from '../../src/files/settings-files.ts';

export async function loadSettings({
  env,
  cores,
  ...files
}: SettingsFiles & { readonly env: Readonly<Record<string, string>>; readonly cores: number }) {
  return load({ layers: await settingsLayers(files), env, cores });
}

export async function loadClusterSettings({ userHome, ...files }: SettingsFiles & { readonly userHome: string }) {
  return loadCluster({ layers: await settingsLayers(files), userHome });
}
