package bed

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func cgroupName(id string) string {
	return "captf-" + id
}

// cgroupHierarchies are the mount points of all cgroup hierarchies: one with cgroup v2, a dozen with v1.
func cgroupHierarchies() []string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	var found []string
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			found = append(found, fields[1])
		}
	}
	return found
}

// makeCgroups makes the bed's folder in every hierarchy. Two kubelets that share a cgroup root end each other's pods.
func makeCgroups(name string) error {
	for _, hierarchy := range cgroupHierarchies() {
		if err := delegateControllers(hierarchy); err != nil {
			return err
		}
		folder := filepath.Join(hierarchy, name)
		if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if err := delegateControllers(folder); err != nil {
			return err
		}
		// A new cpuset of cgroup v1 is empty and takes no process.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(hierarchy, file))
			if err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, file), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// delegateControllers lets the folders below have every controller that this one has (cgroup v2 only).
func delegateControllers(folder string) error {
	controllers, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if err != nil {
		return nil
	}
	for _, controller := range strings.Fields(string(controllers)) {
		file := filepath.Join(folder, "cgroup.subtree_control")
		if err := os.WriteFile(file, []byte("+"+controller), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroups removes the bed's folders, the deepest first.
func removeCgroups(name string) error {
	var failed error
	for _, hierarchy := range cgroupHierarchies() {
		for _, folder := range slices.Backward(foldersBelow(filepath.Join(hierarchy, name))) {
			if err := os.Remove(folder); err != nil && !errors.Is(err, os.ErrNotExist) {
				failed = errors.Join(failed, err)
			}
		}
	}
	return failed
}

// thaw releases what a container runtime froze: a frozen process cannot be killed under cgroup v1.
func thaw(name string) {
	for _, hierarchy := range cgroupHierarchies() {
		for _, folder := range foldersBelow(filepath.Join(hierarchy, name)) {
			state := filepath.Join(folder, "freezer.state")
			if now, err := os.ReadFile(state); err == nil && !bytes.HasPrefix(now, []byte("THAWED")) {
				_ = os.WriteFile(state, []byte("THAWED"), 0o644)
			}
		}
	}
}

// foldersBelow lists a folder and everything below it, parents first.
func foldersBelow(folder string) []string {
	var found []string
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			found = append(found, path)
		}
		return nil
	})
	return found
}
