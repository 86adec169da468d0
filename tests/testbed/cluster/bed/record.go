package bed

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// record tells later runs that a bed exists and what has to be removed after it. The owner holds a lock on the
// record's file for as long as it lives, so "can be locked" means "its owner is gone".
type record struct {
	ID     string `json:"id"`
	Dir    string `json:"dir"`
	Pid    int    `json:"pid"`
	path   string
	file   *os.File
	cgroup string
}

// base is the folder of this user's beds; the records lie in it, and so do beds that were given no folder.
func base() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("captf-testbed-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(owner.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s is not a folder of this user", dir)
	}
	return dir, nil
}

// claim gives the bed its name, its folder and its locked record.
func claim(s *spec) (*record, error) {
	records, err := base()
	if err != nil {
		return nil, err
	}
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	s.ID = hex.EncodeToString(random)
	if err := makeFolders(s, records); err != nil {
		return nil, err
	}
	r := &record{ID: s.ID, Dir: s.Dir, Pid: os.Getpid(), path: filepath.Join(records, s.ID+".json"), cgroup: s.cgroup()}
	if err := r.write(); err != nil {
		_ = os.RemoveAll(s.Dir)
		return nil, err
	}
	return r, nil
}

func makeFolders(s *spec, records string) error {
	if s.Dir == "" {
		s.Dir = filepath.Join(records, s.ID)
	}
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return err
	}
	s.Dir = dir
	if len(dir) > maxDirLength {
		return fmt.Errorf("the folder %s is too long a path for the sockets in it (at most %d bytes)", dir, maxDirLength)
	}
	for _, hidden := range hiddenFolders {
		if s.Level == 2 && strings.HasPrefix(dir+"/", hidden+"/") {
			return fmt.Errorf("a bed of level 2 cannot lie below %s, which it hides from itself", hidden)
		}
	}
	// Everything in the folder is removed at the end, so it must be new.
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("a bed needs a new folder: %w", err)
	}
	if s.Logs == "" {
		s.Logs = s.path("logs")
	}
	s.Logs, err = filepath.Abs(s.Logs)
	if err != nil {
		return err
	}
	return os.MkdirAll(s.Logs, 0o700)
}

// write makes the record visible only when it is locked: an unlocked record is one that a sweep may take.
func (r *record) write() error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	hidden := r.path + ".new"
	file, err := os.OpenFile(hidden, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	if _, err := file.Write(data); err != nil {
		return err
	}
	r.file = file
	return os.Rename(hidden, r.path)
}

// erase removes everything that the kernel does not remove by itself.
func (r *record) erase() {
	err := retry(10*time.Second, func() error {
		return errors.Join(removeCgroups(r.cgroup), removeFolder(r.Dir, r.ID))
	})
	if err != nil {
		// The record stays, so that the next sweep tries again.
		fmt.Fprintf(os.Stderr, "testbed: bed %s left something behind: %v\n", r.ID, err)
	} else {
		_ = os.Remove(r.path)
	}
	r.file.Close()
}

// removeFolder removes a bed's folder. It refuses to reach into a mount, which may not be the bed's, and into a folder
// that is not the bed's any more: the bed's own spec in it is the proof, so that goes last.
func removeFolder(dir, id string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err == nil && strings.Contains(string(mounts), " "+dir+"/") {
		return fmt.Errorf("something is mounted below %s", dir)
	}
	proof := filepath.Join(dir, specFile)
	if s, err := loadSpec(proof); err == nil && s.ID == id {
		entries, err := os.ReadDir(dir)
		for _, entry := range entries {
			if entry.Name() != specFile {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
			}
		}
		if err != nil {
			return err
		}
		if err := os.Remove(proof); err != nil {
			return err
		}
	}
	// Empty, or somebody else's: then it stays.
	_ = os.Remove(dir)
	return nil
}

func retry(limit time.Duration, try func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := try()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// recordsOfBeds reads the records of all beds of this user.
func recordsOfBeds() []*record {
	records, err := base()
	if err != nil {
		return nil
	}
	paths, _ := filepath.Glob(filepath.Join(records, "*.json"))
	var found []*record
	for _, path := range paths {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		r := &record{path: path, file: file}
		if err := json.NewDecoder(file).Decode(r); err != nil {
			file.Close()
			continue
		}
		r.cgroup = cgroupName(r.ID)
		found = append(found, r)
	}
	return found
}

// ownerGone takes the record's lock, which succeeds only when no owner holds it.
func (r *record) ownerGone() bool {
	return unix.Flock(int(r.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// sweepAll removes what beds left whose owner is gone; beds that live are not touched.
func sweepAll() {
	for _, r := range recordsOfBeds() {
		if r.ownerGone() {
			r.erase()
		} else {
			r.file.Close()
		}
	}
}

func sweep([]string) error {
	sweepAll()
	return nil
}
