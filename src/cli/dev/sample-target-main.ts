/**
 * Entry file of the sample target process: prints a ready line, ends with its parent. The sample target as a process of
 * its own: `node sample-target-main.ts [PORT]`.
 */
import { onParentExit } from '../agent/parent-watch.ts';
import { startSampleTarget } from './sample-target.ts';
import { printData } from '../output/terminal.ts';

onParentExit(() => process.exit(0));
const { url } = await startSampleTarget(Number(process.argv[2] ?? 0));
printData(JSON.stringify({ ready: true, url }));
