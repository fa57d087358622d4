/**
 * The stage that installs the Debian programs of the tests: etcd, Chromium, tools for network namespaces. A stage of
 * its own, so that its time does not count as that of the tests. It never fails: tests that need a missing program do.
 */
import { chromiumPackage } from '../../test/support/browser/chromium.ts';
import { etcdPackage } from '../../test/support/etcd/etcd-server.ts';
import { namespacesPackage } from '../../test/support/processes/network-namespaces.ts';
import { type DebianPackage, installDebianPackage } from '../debian-packages.ts';
import type { Stage } from './stage.ts';

const packages: readonly DebianPackage[] = [etcdPackage, chromiumPackage, namespacesPackage];

export const debianStage: Stage = {
  name: 'packages',
  run: async () => {
    const missing = packages
      .map((program) => installDebianPackage(program, (text) => console.log(text)))
      .filter((reason) => reason !== undefined);
    const checked = `${packages.length} Debian programs, ${packages.length - missing.length} installed`;
    for (const reason of missing) console.log(reason);
    return { checked, passed: 1, failures: [] };
  },
};
