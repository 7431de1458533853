// Decodes manifests of KubeRay with the operator's own types, strictly, and runs its validation.
package main

import (
	"bytes"
	"fmt"
	"os"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	"sigs.k8s.io/yaml"
)

func check(document []byte) error {
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "RayCluster":
		var found rayv1.RayCluster
		if err := yaml.UnmarshalStrict(document, &found); err != nil {
			return err
		}
		if err := utils.ValidateRayClusterMetadata(found.ObjectMeta); err != nil {
			return err
		}
		return utils.ValidateRayClusterSpec(&found.Spec, found.Annotations)
	case "RayJob":
		var found rayv1.RayJob
		if err := yaml.UnmarshalStrict(document, &found); err != nil {
			return err
		}
		return utils.ValidateRayJobSpec(&found)
	}
	return nil
}

func main() {
	checked, failed := 0, 0
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			if err := check(document); err != nil {
				fmt.Printf("%s: %v\n", path, err)
				failed++
			}
			checked++
		}
	}
	fmt.Printf("%d documents, %d failed\n", checked, failed)
	if failed > 0 || checked == 0 {
		os.Exit(1)
	}
}
