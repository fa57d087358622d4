/**
 * The stage that installs the Debian programs which tests drive: etcd, Chromium, network namespaces. A stage of its
 * own, because its time says nothing about the tests. A program that cannot be installed fails the tests that need it.
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
    const looked = `${packages.length} Debian programs, ${packages.length - missing.length} there`;
    for (const reason of missing) console.log(reason);
    return { looked, passed: 1, failures: [] };
  },
};
